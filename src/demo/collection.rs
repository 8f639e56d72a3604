//! What the catalogues hold: datasets made from short seed lists, with the oddities of real ones at fixed places.

/// The datasets of one catalogue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Collection {
    /// Lines of `slug|English|German|French|keyword,keyword`.
    seeds: &'static str,
    /// How many datasets generation 0 has.
    size: u64,
    /// The host of IRIs.
    pub(super) host: &'static str,
    /// Who publishes them.
    pub(super) publisher: &'static str,
}

pub(super) const HARBOUR: Collection = Collection {
    seeds: include_str!("documents/harbour.psv"),
    size: 120,
    host: "harbour.example",
    publisher: "Harbour Authority",
};
pub(super) const SHIPYARD: Collection = Collection {
    seeds: include_str!("documents/shipyard.psv"),
    size: 40,
    host: "shipyard.example",
    publisher: "Shipyard on the Sound",
};
pub(super) const DRYDOCK: Collection = Collection {
    seeds: include_str!("documents/drydock.psv"),
    size: 15,
    host: "drydock.shipyard.example",
    publisher: "Dry Dock No. 2",
};
pub(super) const CITY: Collection = Collection {
    seeds: include_str!("documents/city.psv"),
    size: 130,
    host: "data.city.example",
    publisher: "City Survey Office",
};
pub(super) const COAST: Collection = Collection {
    seeds: include_str!("documents/coast.psv"),
    size: 25,
    host: "coast.example",
    publisher: "Coastal Survey",
};
pub(super) const FISHERIES: Collection = Collection {
    seeds: include_str!("documents/fisheries.psv"),
    size: 60,
    host: "fisheries.example",
    publisher: "Fisheries Directorate",
};

const PLACES: &str = include_str!("documents/places.txt");

/// What one change of generation does to each collection.
pub(super) const PER_CHANGE: PerChange = PerChange { added: 3, updated: 4, deleted: 2 };

pub(super) struct PerChange {
    pub(super) added: u64,
    pub(super) updated: u64,
    pub(super) deleted: u64,
}

/// A text in a language.
pub(super) type Text = (&'static str, String);

/// One dataset, before any protocol's clothes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dataset {
    pub(super) index: u64,
    /// As a connector or portal names it: a slug, an URN, a URL with a query, or something with a space.
    pub(super) id: String,
    /// A plain name, unique in its collection.
    pub(super) slug: String,
    /// None, one (sometimes empty), or one for each of three languages.
    pub(super) titles: Vec<Text>,
    pub(super) description: Text,
    pub(super) keywords: Vec<&'static str>,
    /// `YYYY-MM-DD`.
    pub(super) issued: String,
    /// `YYYY-MM-DD`.
    pub(super) modified: String,
    /// How many distributions it has, possibly none.
    pub(super) distributions: u64,
}

impl Collection {
    /// How many datasets it has.
    pub(super) fn len(&self, generation: u64) -> u64 {
        self.size + generation * (PER_CHANGE.added - PER_CHANGE.deleted)
    }

    /// Its datasets, in a stable order. The oldest go, new ones come at the end, and a window of changes moves on.
    pub(super) fn datasets(&self, generation: u64) -> impl Iterator<Item = Dataset> + '_ {
        let first = generation * PER_CHANGE.deleted;
        let end = self.size + generation * PER_CHANGE.added;
        (first..end).map(move |index| self.dataset(index, generation))
    }

    fn dataset(&self, index: u64, generation: u64) -> Dataset {
        let seed = cycled(self.seeds, index);
        let mut fields = seed.split('|');
        let mut field = || fields.next().unwrap_or_default();
        let (slug, english, german, french, keywords) = (field(), field(), field(), field(), field());
        let place = cycled(PLACES, index / self.seeds.lines().count().max(1) as u64);
        let slug = format!("{slug}-{index:03}");
        let revision = revision(index, generation);
        let revised = if revision > 0 { " (revised)" } else { "" };
        let (month, day) = (index % 12 + 1, index % 28 + 1);
        let mut description = format!("{english} at {place}, measured and published by {}{revised}.", self.publisher);
        if index % 31 == 9 {
            description.push_str(&" Every value is checked before it is published; gaps are marked.".repeat(45));
        }
        Dataset {
            index,
            id: self.id_of(index, &slug),
            slug,
            titles: titles(index, [english, german, french], place, revised),
            description: ("en", description),
            keywords: keywords.split(',').collect(),
            issued: format!("2023-{month:02}-{day:02}"),
            modified: format!("{}-{month:02}-{day:02}", 2025 + revision),
            distributions: if index % 41 == 11 { 0 } else { 1 + index % 2 },
        }
    }

    fn id_of(&self, index: u64, slug: &str) -> String {
        match index {
            _ if index % 11 == 6 => format!("urn:{}:{slug}", self.host.replace('.', ":")),
            _ if index % 13 == 7 => format!("https://{}/données?id={slug}&lang=fr", self.host),
            _ if index % 29 == 8 => format!("{slug} (old series)"),
            _ => slug.to_owned(),
        }
    }
}

/// How often a dataset has changed: change `n` revises the four datasets from `4n` on.
fn revision(index: u64, generation: u64) -> u64 {
    u64::from((1..=generation).contains(&(index / PER_CHANGE.updated)))
}

fn titles(index: u64, [english, german, french]: [&str; 3], place: &str, revised: &str) -> Vec<Text> {
    let title = |text: &str| format!("{text}, {place}{revised}");
    match index {
        _ if index % 37 == 10 => vec![("en", String::new())],
        _ if index % 17 == 3 => vec![],
        _ if index % 19 == 4 => vec![("en", format!("⚓ {} 🌊", title(english)))],
        _ if index % 23 == 5 => vec![("en", format!("<b>{english}</b> \"{place}\" & surroundings{revised}"))],
        _ if index.is_multiple_of(3) => vec![("en", title(english)), ("de", title(german)), ("fr", title(french))],
        _ => vec![("en", title(english))],
    }
}

fn cycled(lines: &'static str, index: u64) -> &'static str {
    let count = lines.lines().count().max(1) as u64;
    usize::try_from(index % count).ok().and_then(|line| lines.lines().nth(line)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    const ALL: [Collection; 6] = [HARBOUR, SHIPYARD, DRYDOCK, CITY, COAST, FISHERIES];

    fn by_id(collection: Collection, generation: u64) -> BTreeMap<String, Dataset> {
        collection.datasets(generation).map(|dataset| (dataset.id.clone(), dataset)).collect()
    }

    #[test]
    fn ids_are_unique_and_as_many_as_announced() {
        for collection in ALL {
            for generation in 0..4 {
                assert_eq!(by_id(collection, generation).len() as u64, collection.len(generation));
            }
        }
    }

    #[test]
    fn each_change_adds_updates_and_deletes_what_it_says() {
        for collection in ALL {
            for generation in 0..3 {
                let (before, after) = (by_id(collection, generation), by_id(collection, generation + 1));
                let added = after.keys().filter(|id| !before.contains_key(*id)).count() as u64;
                let deleted = before.keys().filter(|id| !after.contains_key(*id)).count() as u64;
                let updated = after.iter().filter(|(id, new)| before.get(*id).is_some_and(|old| old != *new)).count();
                assert_eq!(
                    (added, updated as u64, deleted),
                    (PER_CHANGE.added, PER_CHANGE.updated, PER_CHANGE.deleted),
                    "{} at {generation}",
                    collection.host
                );
            }
        }
    }

    #[test]
    fn every_seed_line_has_its_five_fields() {
        for line in ALL.iter().flat_map(|collection| collection.seeds.lines()) {
            assert_eq!(line.split('|').filter(|field| !field.is_empty()).count(), 5, "{line}");
        }
    }

    #[test]
    fn the_oddities_of_real_catalogues_are_there() {
        let all: Vec<Dataset> = ALL.iter().flat_map(|collection| collection.datasets(0)).collect();
        assert!(all.iter().any(|dataset| dataset.titles.is_empty()), "no title");
        assert!(all.iter().any(|dataset| dataset.titles.iter().any(|(_, title)| title.is_empty())), "an empty title");
        assert!(all.iter().any(|dataset| dataset.titles.len() == 3), "three languages");
        assert!(all.iter().any(|dataset| dataset.description.1.len() > 2500), "a long description");
        assert!(all.iter().any(|dataset| dataset.distributions == 0), "no distribution");
        assert!(all.iter().any(|dataset| dataset.id.contains(' ')), "an id with a space");
        assert!(all.iter().any(|dataset| dataset.id.contains('?')), "an id with a query");
    }
}
