//! Which Catalog and which run the manifests ask for.

use std::sync::Arc;

use super::manifests::ManifestSet;
use crate::api::{Catalog, CrawlRun, CrawlRunSpec, ObjectRef};
use crate::run::observe::RunInput;

/// Chooses the Catalog (named, or the only one) and its run (named, or the only one, or made from the Catalog's template).
/// `Err` is a sentence for the person who runs the command.
pub fn choose_run(set: &ManifestSet, catalog: Option<&str>, run: Option<&str>) -> Result<RunInput, String> {
    let catalog = choose_catalog(set, catalog)?;
    let name = catalog.metadata.name.clone().unwrap_or_default();
    let spec = match choose_crawl_run(set, &name, run)? {
        Some(run) => run.spec.clone(),
        None => CrawlRunSpec { catalog_ref: ObjectRef::from(name), settings: catalog.spec.run_template.spec.clone() },
    };
    if spec.settings.suspend {
        return Err("the run is suspended (spec.suspend: true), so there is nothing to do; set it to false".to_owned());
    }
    Ok(RunInput {
        catalog: Arc::new(catalog.clone()),
        spec,
        nodes: set.catalog_nodes.iter().map(|located| located.object.clone()).collect(),
        policies: set.throttle_policies.iter().map(|located| located.object.clone()).collect(),
        remembered: Arc::default(),
    })
}

fn choose_catalog<'a>(set: &'a ManifestSet, wanted: Option<&str>) -> Result<&'a Catalog, String> {
    let catalogs: Vec<(&str, &Catalog)> = set
        .catalogs
        .iter()
        .map(|located| (located.object.metadata.name.as_deref().unwrap_or_default(), &located.object))
        .collect();
    let names = || catalogs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match (wanted, catalogs.as_slice()) {
        (_, []) => {
            Err("the input has no Catalog; add one that selects the nodes (trawler init prints an example)".into())
        }
        (None, [(_, only)]) => Ok(only),
        (None, _) => Err(format!("the input has several Catalogs ({}); choose one with --catalog", names())),
        (Some(wanted), _) => {
            let found = catalogs.iter().find(|(name, _)| *name == wanted).map(|(_, catalog)| *catalog);
            found.ok_or_else(|| format!("the input has no Catalog {wanted:?}; it has {}", names()))
        }
    }
}

fn choose_crawl_run<'a>(
    set: &'a ManifestSet,
    catalog: &str,
    wanted: Option<&str>,
) -> Result<Option<&'a CrawlRun>, String> {
    let runs: Vec<(&str, &CrawlRun)> = set
        .crawl_runs
        .iter()
        .filter(|located| located.object.spec.catalog_ref.name == catalog)
        .map(|located| (located.object.metadata.name.as_deref().unwrap_or_default(), &located.object))
        .collect();
    let names = || runs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    match (wanted, runs.as_slice()) {
        (None, []) => Ok(None),
        (None, [(_, only)]) => Ok(Some(only)),
        (None, _) => Err(format!("Catalog {catalog} has several CrawlRuns ({}); choose one with --run", names())),
        (Some(wanted), _) => match runs.iter().find(|(name, _)| *name == wanted) {
            Some((_, run)) => Ok(Some(run)),
            None if runs.is_empty() => {
                Err(format!("the input has no CrawlRun for Catalog {catalog}; leave --run out to use its template"))
            }
            None => Err(format!("Catalog {catalog} has no CrawlRun {wanted:?}; it has {}", names())),
        },
    }
}
