//! The way to the cluster: the kubeconfig that kubectl would take.

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

use super::args::PlaceOptions;
use super::cluster::Cluster;
use super::error::{AskError, innermost};

/// Opens the cluster that the options name. Nothing is asked yet.
pub(super) async fn connect(place: &PlaceOptions, all: bool) -> Result<Cluster, AskError> {
    let options = KubeConfigOptions { context: place.context.clone(), ..KubeConfigOptions::default() };
    let config = match &place.kubeconfig {
        Some(file) => {
            let unreadable = |error: &dyn std::fmt::Display| {
                AskError::Usage(format!("kubeconfig {} can't be used: {error}", file.display()))
            };
            let kubeconfig = Kubeconfig::read_from(file).map_err(|error| unreadable(&innermost(&error)))?;
            check_context(&kubeconfig, place.context.as_deref())?;
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(|error| unreadable(&innermost(&error)))?
        }
        None => match Kubeconfig::read() {
            Ok(kubeconfig) => {
                check_context(&kubeconfig, place.context.as_deref())?;
                let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
                config
                    .map_err(|error| AskError::Usage(format!("the kubeconfig can't be used: {}", innermost(&error))))?
            }
            // In a pod there is none.
            Err(error) => match Config::incluster() {
                Ok(config) if place.context.is_none() => config,
                _ => {
                    return Err(AskError::Usage(format!(
                        "no cluster is known: the kubeconfig can't be read ({}); set KUBECONFIG or --kubeconfig",
                        innermost(&error)
                    )));
                }
            },
        },
    };
    let namespace = place.namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
    let client = Client::try_from(config)
        .map_err(|error| AskError::Usage(format!("the kubeconfig can't be used: {}", innermost(&error))))?;
    Ok(if all { Cluster::of_all(client) } else { Cluster::of_namespace(client, &namespace) })
}

fn check_context(kubeconfig: &Kubeconfig, wanted: Option<&str>) -> Result<(), AskError> {
    let Some(wanted) = wanted else { return Ok(()) };
    let known: Vec<&str> = kubeconfig.contexts.iter().map(|context| context.name.as_str()).collect();
    if known.contains(&wanted) {
        return Ok(());
    }
    let known = if known.is_empty() { "it has none".to_owned() } else { format!("there are {}", known.join(", ")) };
    Err(AskError::Usage(format!("the kubeconfig has no context {wanted}; {known}")))
}
