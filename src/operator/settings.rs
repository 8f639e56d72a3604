//! What the operator is told by its configuration file: the budget of tokens, and what crawler pods look like.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::core::v1::{Affinity, LocalObjectReference, ResourceRequirements, Toleration};
use serde::{Deserialize, Serialize};

/// The configuration file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Settings {
    /// Crawlers of all runs at a time, at most.
    pub tokens: u32,
    /// What all crawler pods have in common.
    pub crawler: CrawlerPod,
    /// Classes of crawler pods, by the name that runs and nodes use.
    pub crawler_classes: BTreeMap<String, CrawlerClass>,
}

/// What all crawler pods have in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CrawlerPod {
    /// The image of this program.
    pub image: String,
    /// When the image is pulled.
    pub image_pull_policy: Option<String>,
    /// Secrets to pull it with.
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// A ServiceAccount without rights.
    pub service_account_name: Option<String>,
    /// The Redis that crawlers reach, without a password.
    pub redis_url: String,
    /// The Secret with the crawlers' password.
    pub redis_secret_name: Option<String>,
    /// Its key in there.
    pub redis_password_key: String,
    /// The key in there of the certificates that the server may be signed by.
    pub redis_ca_key: Option<String>,
    /// Further labels.
    pub pod_labels: BTreeMap<String, String>,
    /// Annotations.
    pub pod_annotations: BTreeMap<String, String>,
    /// Resources, unless class or run say otherwise.
    pub resources: Option<ResourceRequirements>,
    /// Networks (CIDR) that may be asked although they are not public.
    pub allow_private_networks: Vec<String>,
    /// Whom a server's operator can write to.
    pub contact: Option<String>,
    /// The proxy that all requests go through.
    pub proxy: Option<String>,
    /// Which log lines are written.
    pub log_level: Option<String>,
    /// How long a crawler may take to end.
    pub termination_grace_period_seconds: i64,
}

impl Default for Settings {
    fn default() -> Self {
        Self { tokens: 16, crawler: CrawlerPod::default(), crawler_classes: BTreeMap::new() }
    }
}

impl Default for CrawlerPod {
    fn default() -> Self {
        Self {
            image: String::new(),
            image_pull_policy: None,
            image_pull_secrets: Vec::new(),
            service_account_name: None,
            redis_url: String::new(),
            redis_secret_name: None,
            redis_password_key: "crawler-password".to_owned(),
            redis_ca_key: None,
            pod_labels: BTreeMap::new(),
            pod_annotations: BTreeMap::new(),
            resources: None,
            allow_private_networks: Vec::new(),
            contact: None,
            proxy: None,
            log_level: None,
            termination_grace_period_seconds: 30,
        }
    }
}

/// A class of crawler pods: a tenant chooses one by name, and never what is in it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct CrawlerClass {
    /// Resources, over the common ones.
    pub resources: Option<ResourceRequirements>,
    /// Labels that the machine must have.
    pub node_selector: BTreeMap<String, String>,
    /// Taints that are tolerated.
    pub tolerations: Vec<Toleration>,
    /// The priority class.
    pub priority_class_name: Option<String>,
    /// Where pods like to be.
    pub affinity: Option<Affinity>,
}

/// The largest token budget: names have two digits or more, and every reconcile looks at all of them.
const MAX_TOKENS: u32 = 1000;

impl Settings {
    /// Reads the file. `Err` is a sentence.
    pub fn read(path: &Path) -> Result<Self, String> {
        let shown = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{shown} can't be read: {error}"))?;
        let settings: Self = serde_saphyr::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        settings.check().map_err(|why| format!("{shown}: {why}"))?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), String> {
        if !(1..=MAX_TOKENS).contains(&self.tokens) {
            return Err(format!("tokens is {}; it must be from 1 to {MAX_TOKENS}", self.tokens));
        }
        for (field, value) in [("crawler.image", &self.crawler.image), ("crawler.redisUrl", &self.crawler.redis_url)] {
            if value.is_empty() {
                return Err(format!("{field} is missing; crawler pods can't be made without it"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Settings {
        serde_saphyr::from_str(text).unwrap()
    }

    fn refused(text: &str) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        std::fs::write(&path, text).unwrap();
        Settings::read(&path).unwrap_err().replace(&path.display().to_string(), "config.yaml")
    }

    #[test]
    fn what_is_said_is_taken_and_the_rest_is_as_usual() {
        let text = "tokens: 3\ncrawler: {image: 'trawler:1', redisUrl: 'redis://r'}\ncrawlerClasses: {big: {priorityClassName: high}}";
        let settings = read(text);
        let crawler = CrawlerPod { image: "trawler:1".into(), redis_url: "redis://r".into(), ..CrawlerPod::default() };
        let big = CrawlerClass { priority_class_name: Some("high".into()), ..CrawlerClass::default() };
        assert_eq!(settings, Settings { tokens: 3, crawler, crawler_classes: [("big".to_owned(), big)].into() });
    }

    #[test]
    fn what_cannot_work_is_refused_with_its_field() {
        let whole = "crawler: {image: i, redisUrl: r}";
        let errors = [
            "tokens: 0\n".to_owned() + whole,
            "tokens: 5".to_owned(),
            "crawler: {image: i}".to_owned(),
            "token: 5\n".to_owned() + whole,
        ]
        .map(|text| refused(&text));
        assert_eq!(errors[0], "config.yaml: tokens is 0; it must be from 1 to 1000");
        assert_eq!(errors[1], "config.yaml: crawler.image is missing; crawler pods can't be made without it");
        assert_eq!(errors[2], "config.yaml: crawler.redisUrl is missing; crawler pods can't be made without it");
        assert!(errors[3].contains("token"), "{}", errors[3]);
    }
}
