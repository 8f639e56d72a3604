//! Gathering what a catalogue lists: datasets become records, nested catalogues become sections.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use url::Url;

use super::cursor::{PageStep, Step};
use super::rules::DspRules;
use super::wire::{Address, Catalog, Dataset, Entries, address_of, id_of};
use super::{address, dataset, nested};
use crate::protocol::body::{Faults, MAX_ENTRIES, forgive};
use crate::protocol::canonical::Canonical;
use crate::protocol::json::{Json, field};
use crate::protocol::text::{scalar_of, text_of};
use crate::protocol::{
    DspSettings, Forgiven, Limited, NodeContext, Page, ReadError, Rejected, normalised_endpoint, origin_of,
    quoted_start,
};
use crate::task::{SectionKey, SectionPath, Task, TaskKind};

/// How deep nested catalogues that have no address may be nested in a document: each level is scanned once more.
const MAX_INLINE_DEPTH: u32 = 16;

/// The services of a catalogue by id, and those of the catalogue around it.
#[derive(Debug)]
pub(super) struct Services<'j> {
    by_id: HashMap<&'j str, Address<'j>>,
    outer: Option<&'j Services<'j>>,
}

impl<'j> Services<'j> {
    fn of(services: &'j Json<'_>, outer: Option<&'j Services<'j>>) -> Self {
        let entry = |service: &'j Json<'_>| Some((text_of(service.get("@id")?)?, address_of(service)?));
        Self { by_id: services.items().iter().filter_map(entry).collect(), outer }
    }

    /// The address of an access service: its own, or that of the service it refers to.
    pub(super) fn address(&self, access: &'j Json<'_>) -> Option<Address<'j>> {
        access.items().iter().find_map(|one| address_of(one).or_else(|| self.by_id(text_of(one)?)))
    }

    fn by_id(&self, id: &str) -> Option<Address<'j>> {
        self.by_id.get(id).copied().or_else(|| self.outer?.by_id(id))
    }
}

/// Gathers one page.
#[derive(Debug)]
pub(super) struct Collector<'c> {
    node: &'c NodeContext,
    settings: &'c DspSettings,
    task: &'c Task,
    at: &'c PageStep,
    page: Page,
    seen: HashSet<String>,
    sections: HashSet<String>,
    on_the_way: Option<HashSet<String>>,
    entries: usize,
    canonical: Canonical<DspRules>,
}

impl<'c> Collector<'c> {
    pub(super) fn new(
        node: &'c NodeContext,
        settings: &'c DspSettings,
        task: &'c Task,
        at: &'c PageStep,
        forgiven: Faults,
    ) -> Self {
        let page = Page { forgiven, ..Page::default() };
        let canonical = Canonical::new(DspRules);
        let (seen, sections) = (HashSet::new(), HashSet::new());
        Self { node, settings, task, at, page, seen, sections, on_the_way: None, entries: 0, canonical }
    }

    pub(super) fn into_page(self) -> Page {
        self.page
    }

    /// Gathers what the page's own catalogue lists.
    pub(super) fn add_root(&mut self, catalog: &mut Catalog<'_>) -> Result<(), ReadError> {
        let listed = (catalog.datasets(), catalog.catalogs());
        if matches!(catalog.services, Json::Object(_)) {
            self.forgive(Forgiven::ObjectForList);
        }
        let services = Services::of(&catalog.services, None);
        let participant = text_of(&catalog.participant);
        self.check_participant(participant)?;
        self.page.records.reserve(listed.0.items.len());
        self.add(listed, &services, participant, 0)
    }

    /// The node's own catalogue must be whose the node says; nested ones may be anybody's. A page without a participant
    /// is let through if it is not the first: pages after it may leave out what the first has said.
    fn check_participant(&self, found: Option<&str>) -> Result<(), ReadError> {
        let Some(expected) = &self.settings.participant_id else { return Ok(()) };
        let may_be_silent = found.is_none() && self.task.page > 0;
        if !self.task.section.section.is_root() || found == Some(expected) || may_be_silent {
            return Ok(());
        }
        Err(ReadError::WrongParticipant {
            url: self.node.endpoint.to_string(),
            expected: expected.clone(),
            found: quoted_start(found.unwrap_or_default().as_bytes()),
        })
    }

    fn add(
        &mut self,
        (datasets, catalogs): (Entries<'_>, Entries<'_>),
        services: &Services<'_>,
        participant: Option<&str>,
        inline_depth: u32,
    ) -> Result<(), ReadError> {
        self.count(datasets.items.len() + catalogs.items.len())?;
        for is_object in [datasets.is_object, catalogs.is_object] {
            if is_object {
                self.forgive(Forgiven::ObjectForList);
            }
        }
        for (position, raw) in datasets.items.into_iter().enumerate() {
            match Dataset::parse(raw.get()) {
                Err(error) => self.reject(format!("dataset[{position}]"), format!("it can't be read: {error}")),
                Ok(entry) if entry.is_catalog => {
                    self.add_nested(raw, position, services, participant, inline_depth)?;
                }
                Ok(entry) => self.add_dataset(&entry, raw, position, services, participant),
            }
        }
        for (position, raw) in catalogs.items.into_iter().enumerate() {
            self.add_nested(raw, position, services, participant, inline_depth)?;
        }
        Ok(())
    }

    fn add_dataset(
        &mut self,
        entry: &Dataset<'_>,
        raw: &RawValue,
        position: usize,
        services: &Services<'_>,
        participant: Option<&str>,
    ) {
        let id = id_of(&entry.fields).or_else(|| {
            let id = field(&entry.fields, "id").and_then(scalar_of)?;
            forgive(&mut self.page.forgiven, Forgiven::MisnamedProperty);
            Some(id)
        });
        let Some(id) = id else {
            self.reject(format!("dataset[{position}]"), "it has no @id".to_owned());
            return;
        };
        if !self.seen.insert(id.clone().into_owned()) {
            self.forgive(Forgiven::DuplicateRecord);
            return;
        }
        let hash = self.canonical.hash(&entry.fields);
        let mut record =
            dataset::to_record(id.into_owned(), hash, entry, services, participant, &mut self.page.forgiven);
        record.raw = Some(raw.to_owned());
        self.page.records.push(record);
    }

    fn add_nested(
        &mut self,
        raw: &RawValue,
        position: usize,
        services: &Services<'_>,
        participant: Option<&str>,
        inline_depth: u32,
    ) -> Result<(), ReadError> {
        let mut catalog = match Catalog::parse(raw.get()) {
            Ok(catalog) => catalog,
            Err(error) => {
                self.reject(format!("catalog[{position}]"), format!("it can't be read: {error}"));
                return Ok(());
            }
        };
        let listed = (catalog.datasets(), catalog.catalogs());
        let own = Services::of(&catalog.services, Some(services));
        if let Some(endpoint) = nested::endpoint(&catalog, &own) {
            if endpoint.is_misnamed {
                self.forgive(Forgiven::MisnamedProperty);
            }
            match self.at.base.join(endpoint.url).ok().and_then(|url| address::of_endpoint(&url).ok()) {
                Some(url) => return self.add_section(&url),
                None => self.forgive(Forgiven::InvalidIri),
            }
        }
        self.forgive(Forgiven::NestedWithoutEndpoint);
        if inline_depth >= MAX_INLINE_DEPTH {
            let why = format!("it is nested more than {MAX_INLINE_DEPTH} deep in one document");
            self.reject(format!("catalog[{position}]"), why);
            return Ok(());
        }
        let participant = text_of(&catalog.participant).or(participant);
        self.add(listed, &own, participant, inline_depth + 1)
    }

    /// A nested catalogue with an address is a section of its own. Whether followed or not, it is listed, but for one
    /// that leads back to where we come from: that one is listed by what it leads back to.
    fn add_section(&mut self, url: &Url) -> Result<(), ReadError> {
        let endpoint = normalised_endpoint(url);
        let (node, task, base) = (self.node, self.task, &self.at.base);
        let on_the_way = self.on_the_way.get_or_insert_with(|| nested::on_the_way(node, task, base));
        if on_the_way.contains(&address::connector_key(url)) {
            self.forgive(Forgiven::Cycle);
            return Ok(());
        }
        if !self.sections.insert(endpoint.clone()) {
            return Ok(());
        }
        let section = SectionKey { node: self.node.name.clone(), section: SectionPath::from(endpoint.as_str()) };
        self.page.listed_sections.push(section.clone());
        let is_own_origin = origin_of(url) == origin_of(&self.node.endpoint);
        if !self.settings.follow_nested || !(is_own_origin || self.settings.allow_cross_origin) {
            return Ok(());
        }
        let depth = self.task.depth.saturating_add(1);
        if depth > self.settings.max_depth {
            // The whole section counts as cut short, although only this entry is: what a limit hid must not look gone.
            self.page.limited = Some(Limited::MaxDepth);
            return Ok(());
        }
        let cursor = Step::Discover { endpoint: url.clone(), attempt: 0 }.to_cursor()?;
        let task = Task::new(section, TaskKind::Root, origin_of(url), cursor);
        let provenance = self.task.provenance.iter().cloned().chain([endpoint]).collect();
        self.page.feedback.push(Task { depth, provenance, ..task });
        Ok(())
    }

    /// Bounds what one document may list, inline catalogues included.
    fn count(&mut self, more: usize) -> Result<(), ReadError> {
        self.entries = self.entries.saturating_add(more);
        if self.entries <= MAX_ENTRIES {
            return Ok(());
        }
        let what = format!("a page of {} entries", self.entries);
        Err(ReadError::OverLimit { url: self.at.url().to_string(), what, limit: MAX_ENTRIES as u64 })
    }

    fn forgive(&mut self, fault: Forgiven) {
        forgive(&mut self.page.forgiven, fault);
    }

    fn reject(&mut self, what: String, why: String) {
        self.page.rejected.push(Rejected { what, why });
    }
}
