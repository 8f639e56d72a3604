//! `manifests/samples/`: the typed samples, without what is a default anyway.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::CustomResourceExt;
use serde::Serialize;
use serde_json::{Value, json};

use super::{GeneratedFile, Output, to_yaml};
use crate::api::names::{ALLOWED_ORIGINS_ANNOTATION, CREDENTIAL_LABEL};
use crate::api::{Catalog, CatalogNode, CrawlRun, ThrottlePolicy, samples};

/// The samples of all kinds. Together they are a federation that `trawler validate` has nothing to say about.
pub fn samples() -> Output {
    let files = vec![
        sample("catalog", "Everything labelled federation: mobility, kept fresh.", &samples::catalog()),
        sample("catalognode-dsp", "A connector that needs a token and has a policy of its own.", &samples::dsp_node()),
        sample("catalognode-ckan", "A CKAN portal, of which one organisation is taken.", &samples::ckan_node()),
        sample("catalognode-dcat", "A DCAT document in Turtle.", &samples::dcat_node()),
        sample("crawlrun", "A run on demand over two of the nodes.", &samples::crawl_run()),
        sample("throttlepolicy", "Gentle at all times.", &samples::throttle_policy()),
        file("secret", "The token of the connector: replace it.", &json!(secret())),
    ];
    Output { target: "samples", directory: "manifests/samples", files }
}

/// The Secret that the sample node refers to.
fn secret() -> Secret {
    let one = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
    Secret {
        metadata: ObjectMeta {
            name: Some("acme-token".to_owned()),
            labels: one(CREDENTIAL_LABEL, "true"),
            annotations: one(ALLOWED_ORIGINS_ANNOTATION, "https://acme.example"),
            ..ObjectMeta::default()
        },
        string_data: one("token", "replace-me"),
        ..Secret::default()
    }
}

trait Sample: Serialize {
    fn schema() -> Value;
}

macro_rules! sample_kinds {
    ($($kind:ty),*) => {$(
        impl Sample for $kind {
            fn schema() -> Value {
                json!(<$kind>::crd())["spec"]["versions"][0]["schema"]["openAPIV3Schema"].take()
            }
        }
    )*};
}

sample_kinds!(Catalog, CatalogNode, CrawlRun, ThrottlePolicy);

fn sample<T: Sample>(name: &str, about: &str, object: &T) -> GeneratedFile {
    let mut value = json!(object);
    leave_out_defaults(&T::schema()["properties"]["spec"], &mut value["spec"]);
    file(name, about, &value)
}

fn file(name: &str, about: &str, value: &Value) -> GeneratedFile {
    let header =
        format!("# {about}\n# Generated from src/api/samples.rs by `trawler generate samples`. Do not edit.\n");
    GeneratedFile { name: format!("{name}.yaml"), content: header + &to_yaml(value) }
}

/// Removes fields whose value is the schema's default.
fn leave_out_defaults(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, value| schema["properties"][name].get("default") != Some(value));
            for (name, value) in fields {
                leave_out_defaults(&schema["properties"][name], value);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| leave_out_defaults(&schema["items"], item)),
        _ => {}
    }
}
