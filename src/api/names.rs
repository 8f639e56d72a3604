//! Names that Trawler gives to things on Kubernetes, each once.

/// The API group.
pub const GROUP: &str = "trawler.dev";

/// The version of the API.
pub const VERSION: &str = "v1alpha1";

/// Group and version, as `apiVersion` has them.
pub const API_VERSION: &str = "trawler.dev/v1alpha1";

/// Annotation on a Catalog: a new value asks for a run now. Any text, by custom a time.
pub const RUN_REQUESTED_AT_ANNOTATION: &str = "trawler.dev/run-requested-at";

/// Annotation on a Catalog: held deletions that a person approves, as `NODE#TRAVERSAL` or `NODE/SECTION#TRAVERSAL`,
/// separated by blanks.
pub const APPROVED_DELETIONS_ANNOTATION: &str = "trawler.dev/approved-deletions";

/// Label on a Secret: `"true"` makes it usable as a credential.
pub const CREDENTIAL_LABEL: &str = "trawler.dev/credential";

/// Annotation on a Secret: the origins it may be sent to, separated by commas or spaces.
pub const ALLOWED_ORIGINS_ANNOTATION: &str = "trawler.dev/allowed-origins";

/// The key of a ConfigMap that holds certificates of authorities in PEM.
pub const CA_KEY: &str = "ca.crt";

/// Label on every run that was made for a Catalog: the Catalog's name.
pub const CATALOG_LABEL: &str = "trawler.dev/catalog";

/// Label on a crawler's Job and pod: the uid of its CrawlRun.
pub const RUN_UID_LABEL: &str = "trawler.dev/crawl-run-uid";

/// The manager of the fields that Trawler applies.
pub const FIELD_MANAGER: &str = "trawler";
