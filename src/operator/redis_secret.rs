//! The Secret of a bundled Redis: passwords and users, made once by whoever comes first.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tracing::info;

/// Keys of the Secret.
const OWNER: &str = "owner-password";
const CRAWLER: &str = "crawler-password";
const USERS: &str = "users.acl";

/// Returns the owner's password from the Secret; makes the Secret if it is missing. What is there is never changed: others hold
/// connections by it. `acl` are the lines of the two users, with `PASSWORD` for each password: the owner's first. `Err` is a
/// sentence.
pub async fn ensure_redis_secret(
    client: &Client,
    namespace: &str,
    name: &str,
    instance: &str,
    acl: &[String],
) -> Result<String, String> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let failed = |error: kube::Error| format!("Secret {name} of the bundled Redis can't be read or made: {error}");
    for _ in 0..3 {
        if let Some(secret) = secrets.get_opt(name).await.map_err(failed)? {
            let password = secret.data.unwrap_or_default().remove(OWNER).map(|ByteString(bytes)| bytes);
            let password = password.and_then(|bytes| String::from_utf8(bytes).ok()).filter(|text| !text.is_empty());
            let missing =
                || format!("Secret {name} has no key {OWNER}; add it, or delete the Secret so that it is made anew");
            return password.ok_or_else(missing);
        }
        let secret = new_secret(namespace, name, instance, acl)?;
        match secrets.create(&PostParams::default(), &secret).await {
            Ok(_) => info!(secret = name, "the Secret of the bundled Redis is made"),
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(failed(error)),
        }
    }
    Err(format!("Secret {name} is made and deleted again and again; look who deletes it"))
}

fn new_secret(namespace: &str, name: &str, instance: &str, acl: &[String]) -> Result<Secret, String> {
    let (owner, crawler) = (password()?, password()?);
    let mut lines: Vec<String> =
        acl.iter().zip([&owner, &crawler]).map(|(line, password)| line.replace("PASSWORD", password)).collect();
    // Nobody else: the user of who says no name may ping, for probes.
    lines.push("user default reset on nopass -@all +ping".to_owned());
    let data = [(OWNER, owner), (CRAWLER, crawler), (USERS, lines.join("\n") + "\n")];
    let labels = [("app.kubernetes.io/name", "trawler"), ("app.kubernetes.io/instance", instance)];
    let labels: BTreeMap<String, String> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    Ok(Secret {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(namespace.to_owned()),
            labels: Some(labels),
            ..ObjectMeta::default()
        },
        string_data: Some(data.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    })
}

/// 256 random bits, as text that needs no quotes anywhere.
fn password() -> Result<String, String> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| format!("the system gives no randomness: {error}"))?;
    Ok(data_encoding::HEXLOWER.encode(&random))
}
