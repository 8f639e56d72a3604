//! A crawler's Job, as an object. Pure.

use std::collections::BTreeMap;

use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EmptyDirVolumeSource, EnvVar, EnvVarSource, KeyToPath, ObjectFieldSelector,
    PodSecurityContext, PodSpec, PodTemplateSpec, ProjectedVolumeSource, ResourceRequirements, SeccompProfile,
    SecretProjection, SecretVolumeSource, SecurityContext, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::settings::{CrawlerClass, Settings};
use crate::api::CrawlerResources;
pub(crate) use crate::api::names::RUN_UID_LABEL;
use crate::config;
use crate::task::RunId;

/// Whose crawler a Job is: the name of the instance.
pub(crate) const INSTANCE_LABEL: &str = "trawler.dev/instance";
/// Which token it holds.
pub(crate) const TOKEN_LABEL: &str = "trawler.dev/token";
/// The name of its CrawlRun: too long for a label.
pub(crate) const RUN_ANNOTATION: &str = "trawler.dev/crawl-run";
/// The group of nodes that it serves.
pub(crate) const GROUP_ANNOTATION: &str = "trawler.dev/crawler-class";
/// The label by which the Job controller says whose a pod is.
pub(crate) const JOB_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

const SECRETS_DIR: &str = "/etc/trawler/secrets";
const REDIS_DIR: &str = "/etc/trawler/redis";

/// Secrets that a crawler pod has, at most: each is a part of one volume.
pub(crate) const MAX_SECRETS: usize = 64;

/// A crawler without work stays for so long: starting a pod takes some seconds, so that a short wait is not worth a new one.
const LINGER_SECONDS: u32 = 30;

/// How much longer than the run a Job may last: a backstop, since its deletion takes the logs with it.
const DEADLINE_GRACE_SECONDS: i64 = 300;

/// What a crawler's Job is made from.
#[derive(Debug, Clone)]
pub(crate) struct CrawlerJobInput<'a> {
    pub(crate) instance: &'a str,
    pub(crate) namespace: &'a str,
    pub(crate) settings: &'a Settings,
    pub(crate) token: u32,
    pub(crate) run: &'a RunId,
    /// Name and uid of the CrawlRun.
    pub(crate) crawl_run: (&'a str, &'a str),
    pub(crate) group: &'a str,
    pub(crate) resources: &'a CrawlerResources,
    /// Secrets of the group's nodes that may be used.
    pub(crate) secrets: &'a [String],
    /// What is left until the run's deadline, in seconds.
    pub(crate) seconds_left: Option<i64>,
}

/// The name of the Job that holds a token: a second one of this name is refused, which makes the token one.
pub(crate) fn job_name(instance: &str, token: u32) -> String {
    format!("{instance}-token-{token:02}")
}

/// Makes the Job.
pub(crate) fn build_job(input: &CrawlerJobInput<'_>) -> Job {
    let labels = labels(input);
    let annotations: BTreeMap<String, String> = [
        (RUN_ANNOTATION.to_owned(), input.crawl_run.0.to_owned()),
        (GROUP_ANNOTATION.to_owned(), input.group.to_owned()),
    ]
    .into();
    let crawler = &input.settings.crawler;
    // Those of the configuration are what NetworkPolicies know; those by which we know our own are nobody's to change.
    let mut pod_labels = labels.clone();
    pod_labels.extend(crawler.pod_labels.clone());
    pod_labels.extend(labels.clone().into_iter().filter(|(key, _)| key.starts_with("trawler.dev/")));
    let mut pod_annotations = crawler.pod_annotations.clone();
    pod_annotations.extend(annotations.clone());
    let (name, uid) = input.crawl_run;
    Job {
        metadata: ObjectMeta {
            name: Some(job_name(input.instance, input.token)),
            namespace: Some(input.namespace.to_owned()),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![OwnerReference {
                api_version: crate::api::names::API_VERSION.to_owned(),
                kind: "CrawlRun".to_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
                controller: Some(true),
                block_owner_deletion: Some(false),
            }]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            pod_replacement_policy: Some("Failed".to_owned()),
            active_deadline_seconds: input.seconds_left.map(|left| left.max(1) + DEADLINE_GRACE_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels),
                    annotations: Some(pod_annotations),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod_spec(input)),
            },
            ..JobSpec::default()
        }),
        status: None,
    }
}

fn labels(input: &CrawlerJobInput<'_>) -> BTreeMap<String, String> {
    [
        ("app.kubernetes.io/name", "trawler".to_owned()),
        ("app.kubernetes.io/component", "crawler".to_owned()),
        ("app.kubernetes.io/instance", input.instance.to_owned()),
        (INSTANCE_LABEL, input.instance.to_owned()),
        (TOKEN_LABEL, input.token.to_string()),
        (RUN_UID_LABEL, input.crawl_run.1.to_owned()),
    ]
    .map(|(key, value)| (key.to_owned(), value))
    .into()
}

fn pod_spec(input: &CrawlerJobInput<'_>) -> PodSpec {
    let crawler = &input.settings.crawler;
    let class = input.settings.crawler_classes.get(input.group).cloned().unwrap_or_default();
    let mut volumes =
        vec![Volume { name: "tmp".to_owned(), empty_dir: Some(EmptyDirVolumeSource::default()), ..Volume::default() }];
    let mut mounts = vec![mount("tmp", "/tmp", false)];
    if let Some(secret) = &crawler.redis_secret_name {
        let keys = [Some(&crawler.redis_password_key), crawler.redis_ca_key.as_ref()].into_iter().flatten();
        let items = keys.map(|key| KeyToPath { key: key.clone(), path: key.clone(), mode: None }).collect();
        volumes.push(Volume {
            name: "redis".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.clone()),
                items: Some(items),
                default_mode: Some(0o440),
                optional: None,
            }),
            ..Volume::default()
        });
        mounts.push(mount("redis", REDIS_DIR, true));
    }
    if !input.secrets.is_empty() {
        volumes.push(credentials_volume(input.secrets));
        mounts.push(mount("credentials", SECRETS_DIR, true));
    }
    let CrawlerClass { node_selector, tolerations, priority_class_name, affinity, .. } = &class;
    PodSpec {
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: crawler.service_account_name.clone(),
        image_pull_secrets: (!crawler.image_pull_secrets.is_empty()).then(|| crawler.image_pull_secrets.clone()),
        termination_grace_period_seconds: Some(crawler.termination_grace_period_seconds),
        node_selector: (!node_selector.is_empty()).then(|| node_selector.clone()),
        tolerations: (!tolerations.is_empty()).then(|| tolerations.clone()),
        priority_class_name: priority_class_name.clone(),
        affinity: affinity.clone(),
        security_context: Some(PodSecurityContext {
            run_as_non_root: Some(true),
            run_as_user: Some(65532),
            run_as_group: Some(65532),
            fs_group: Some(65532),
            seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), localhost_profile: None }),
            ..PodSecurityContext::default()
        }),
        containers: vec![container(input, &class, mounts)],
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

/// One volume for all Secrets of the group: each optional, since a missing one is a fault of its node, not of the pod.
fn credentials_volume(secrets: &[String]) -> Volume {
    const KEYS: [&str; 12] = [
        "token",
        "username",
        "password",
        "header",
        "value",
        "clientId",
        "clientSecret",
        "tokenUrl",
        "scope",
        "audience",
        "tls.crt",
        "tls.key",
    ];
    let sources = secrets.iter().take(MAX_SECRETS).flat_map(|name| {
        KEYS.map(|key| VolumeProjection {
            secret: Some(SecretProjection {
                name: name.clone(),
                items: Some(vec![KeyToPath { key: key.to_owned(), path: format!("{name}/{key}"), mode: None }]),
                optional: Some(true),
            }),
            ..VolumeProjection::default()
        })
    });
    Volume {
        name: "credentials".to_owned(),
        projected: Some(ProjectedVolumeSource { default_mode: Some(0o440), sources: Some(sources.collect()) }),
        ..Volume::default()
    }
}

fn container(input: &CrawlerJobInput<'_>, class: &CrawlerClass, mounts: Vec<VolumeMount>) -> Container {
    let crawler = &input.settings.crawler;
    Container {
        name: "crawler".to_owned(),
        image: Some(crawler.image.clone()),
        image_pull_policy: crawler.image_pull_policy.clone(),
        args: Some(vec!["crawl".to_owned(), "--linger".to_owned(), LINGER_SECONDS.to_string()]),
        env: Some(environment(input)),
        resources: Some(resources(crawler.resources.as_ref(), class.resources.as_ref(), input.resources)),
        security_context: Some(SecurityContext {
            allow_privilege_escalation: Some(false),
            read_only_root_filesystem: Some(true),
            capabilities: Some(Capabilities { add: None, drop: Some(vec!["ALL".to_owned()]) }),
            ..SecurityContext::default()
        }),
        termination_message_policy: Some("FallbackToLogsOnError".to_owned()),
        volume_mounts: Some(mounts),
        ..Container::default()
    }
}

fn environment(input: &CrawlerJobInput<'_>) -> Vec<EnvVar> {
    let crawler = &input.settings.crawler;
    let mut env = vec![EnvVar {
        name: config::UID.to_owned(),
        value: None,
        value_from: Some(EnvVarSource {
            field_ref: Some(ObjectFieldSelector {
                api_version: None,
                field_path: format!("metadata.labels['{JOB_UID_LABEL}']"),
            }),
            ..EnvVarSource::default()
        }),
    }];
    let mut set = |name: &str, value: String| {
        env.push(EnvVar { name: name.to_owned(), value: Some(value), value_from: None });
    };
    set(config::RUN, input.run.to_string());
    set(config::TOKEN, input.token.to_string());
    set(config::GROUP, input.group.to_owned());
    set(config::INSTANCE, input.instance.to_owned());
    set(config::REDIS, crawler.redis_url.clone());
    set(config::STORE, "redis".to_owned());
    set(config::LOG_FORMAT, "json".to_owned());
    set(config::LOG, crawler.log_level.clone().unwrap_or_else(|| "info".to_owned()));
    if crawler.redis_secret_name.is_some() {
        set(config::REDIS_PASSWORD_FILE, format!("{REDIS_DIR}/{}", crawler.redis_password_key));
        if let Some(key) = &crawler.redis_ca_key {
            set(config::REDIS_CA, format!("{REDIS_DIR}/{key}"));
        }
    }
    if !input.secrets.is_empty() {
        set(config::SECRETS_DIR, SECRETS_DIR.to_owned());
    }
    if !crawler.allow_private_networks.is_empty() {
        set(config::ALLOW_PRIVATE, crawler.allow_private_networks.join(","));
    }
    if let Some(contact) = &crawler.contact {
        set(config::CONTACT, contact.clone());
    }
    if let Some(proxy) = &crawler.proxy {
        set(config::PROXY, proxy.clone());
    }
    env
}

/// The run's resources over the class's over the common ones, key by key.
fn resources(
    common: Option<&ResourceRequirements>,
    class: Option<&ResourceRequirements>,
    run: &CrawlerResources,
) -> ResourceRequirements {
    let mut requests: BTreeMap<String, Quantity> = BTreeMap::new();
    let mut limits: BTreeMap<String, Quantity> = BTreeMap::new();
    for layer in [common, class].into_iter().flatten() {
        requests.extend(layer.requests.clone().unwrap_or_default());
        limits.extend(layer.limits.clone().unwrap_or_default());
    }
    let quantity = |amount: &IntOrString| match amount {
        IntOrString::Int(number) => Quantity(number.to_string()),
        IntOrString::String(text) => Quantity(text.clone()),
    };
    requests.extend(run.requests.iter().map(|(key, amount)| (key.clone(), quantity(amount))));
    limits.extend(run.limits.iter().map(|(key, amount)| (key.clone(), quantity(amount))));
    ResourceRequirements {
        requests: (!requests.is_empty()).then_some(requests),
        limits: (!limits.is_empty()).then_some(limits),
        claims: None,
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: read_only.then_some(true),
        ..VolumeMount::default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn input<'a>(
        settings: &'a Settings,
        resources: &'a CrawlerResources,
        secrets: &'a [String],
        run: &'a RunId,
    ) -> CrawlerJobInput<'a> {
        CrawlerJobInput {
            instance: "mobility",
            namespace: "n",
            settings,
            token: 7,
            run,
            crawl_run: ("nightly", "uid-1"),
            group: "big",
            resources,
            secrets,
            seconds_left: Some(100),
        }
    }

    #[test]
    fn a_job_is_one_pod_under_the_restricted_profile_and_holds_one_token() {
        let settings: Settings = serde_json::from_value(json!({
            "crawler": {
                "image": "trawler:1", "redisUrl": "redis://crawler@r", "redisSecretName": "r", "podLabels": {"team": "x"},
                "resources": {"limits": {"memory": "1Gi", "cpu": "1"}}, "allowPrivateNetworks": ["10.0.0.0/8"],
            },
            "crawlerClasses": {"big": {"resources": {"limits": {"memory": "4Gi"}}, "priorityClassName": "high"}},
        }))
        .unwrap();
        let resources: CrawlerResources = serde_json::from_value(json!({"limits": {"memory": "8Gi"}})).unwrap();
        let (secrets, run) = (["acme".to_owned()], RunId::from("mobility-1"));
        let job = serde_json::to_value(build_job(&input(&settings, &resources, &secrets, &run))).unwrap();
        assert_eq!(job["metadata"]["name"], "mobility-token-07");
        assert_eq!(job["metadata"]["ownerReferences"][0]["blockOwnerDeletion"], false);
        let spec = &job["spec"];
        assert_eq!(
            (&spec["backoffLimit"], &spec["podReplacementPolicy"], &spec["activeDeadlineSeconds"]),
            (&json!(0), &json!("Failed"), &json!(400))
        );
        let pod = &spec["template"]["spec"];
        assert_eq!(
            [
                &pod["restartPolicy"],
                &pod["automountServiceAccountToken"],
                &pod["enableServiceLinks"],
                &pod["priorityClassName"]
            ],
            [&json!("Never"), &json!(false), &json!(false), &json!("high")]
        );
        assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let container = &pod["containers"][0];
        assert_eq!(
            container["securityContext"],
            json!({"allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "capabilities": {"drop": ["ALL"]}})
        );
        assert_eq!(
            container["resources"]["limits"],
            json!({"memory": "8Gi", "cpu": "1"}),
            "run over class over common"
        );
        assert_eq!(spec["template"]["metadata"]["labels"]["team"], "x");
        let environment = container["env"].as_array().unwrap();
        let names: Vec<&str> = environment.iter().map(|variable| variable["name"].as_str().unwrap()).collect();
        assert!(!environment.iter().any(|variable| variable.to_string().contains("assword=")), "{names:?}");
        assert!(names.contains(&"TRAWLER_REDIS_PASSWORD_FILE") && names.contains(&"TRAWLER_SECRETS_DIR"), "{names:?}");
    }

    #[test]
    fn a_pod_gets_no_more_secrets_than_one_volume_may_have_and_each_may_be_missing() {
        let settings = Settings::default();
        let resources = CrawlerResources::default();
        let secrets: Vec<String> = (0..100).map(|number| format!("s{number}")).collect();
        let run = RunId::from("m-1");
        let job = serde_json::to_value(build_job(&input(&settings, &resources, &secrets, &run))).unwrap();
        let volumes = job["spec"]["template"]["spec"]["volumes"].as_array().unwrap();
        let sources =
            volumes.iter().find(|volume| volume["name"] == "credentials").unwrap()["projected"]["sources"].clone();
        let sources = sources.as_array().unwrap();
        assert!(sources.iter().all(|source| source["secret"]["optional"] == true));
        let names: std::collections::BTreeSet<&str> =
            sources.iter().map(|source| source["secret"]["name"].as_str().unwrap()).collect();
        assert_eq!(names.len(), MAX_SECRETS);
    }
}
