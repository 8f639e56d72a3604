//! How long a run takes to begin, beside a bare Job of the same image.

use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

use super::installed::Installed;
use super::kubectl::eventually;

/// Pairs that are measured, a run and a Job in turn.
const PAIRS: usize = 20;

/// Only the container's start counts: it needs no right, no network and no configuration.
const JOB: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: NAME}
spec:
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      automountServiceAccountToken: false
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: bare
          image: trawler.dev/trawler:test
          imagePullPolicy: Never
          args: [--version]
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
";

#[test]
#[ignore = "a measurement: tests/e2e/run --ignored latency"]
fn a_run_asks_its_first_catalogue_within_twice_the_time_of_a_bare_job() {
    let installed = Installed::new("latency");
    let (mut runs, mut jobs) = (Vec::new(), Vec::new());
    for pair in 1..=PAIRS {
        runs.push(first_request(&installed, &format!("run-{pair}")));
        jobs.push(bare_job(&installed, &format!("bare-{pair}")));
    }
    let (run, job) = (median(&mut runs), median(&mut jobs));
    let ratio = run.as_secs_f64() / job.as_secs_f64();
    println!("first request after {run:?}, bare Job after {job:?} (medians of {PAIRS}), ratio {ratio:.2}");
    println!("runs: {runs:?}\njobs: {jobs:?}");
    assert!(ratio <= 2.0, "a run takes {ratio:.2} times as long as a bare Job");
}

/// From before `kubectl apply` of a run to the first request at a catalogue.
fn first_request(installed: &Installed, name: &str) -> Duration {
    let before = installed.federation.requests();
    let begun = Instant::now();
    let taken = std::thread::scope(|scope| {
        let seen = scope.spawn(|| {
            while installed.federation.requests() == before {
                assert!(begun.elapsed() < Duration::from_mins(3), "{name} asks nobody");
                std::thread::sleep(Duration::from_millis(2));
            }
            begun.elapsed()
        });
        installed.run(name, "");
        seen.join().unwrap()
    });
    installed.ended(name);
    taken
}

/// From before `kubectl apply` of a Job to the start of its container, which Kubernetes tells in whole seconds, rounded down:
/// half a second is added, which is right on average and within half a second for each.
fn bare_job(installed: &Installed, name: &str) -> Duration {
    let begun = SystemTime::now();
    installed.namespace.apply(&JOB.replace("NAME", name));
    let started = eventually(Duration::from_mins(3), || {
        let pods = installed.namespace.list("pods", &format!("job-name={name}"));
        let state: &Value = &pods.first()?["status"]["containerStatuses"][0]["state"];
        let of = |what: &str| state[what]["startedAt"].as_str()?.parse::<k8s_openapi::jiff::Timestamp>().ok();
        of("terminated").or_else(|| of("running"))
    });
    let started =
        SystemTime::from(started.unwrap_or_else(|| panic!("{name} starts:\n{}", installed.namespace.state())));
    (started + Duration::from_millis(500)).duration_since(begun).unwrap_or_default()
}

/// The median, of sorted times.
fn median(times: &mut [Duration]) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}
