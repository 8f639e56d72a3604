//! The terms that exports use, with their names in JSON-LD and their prefixes in Turtle.

macro_rules! terms {
    ($($(#[$doc:meta])* $prefix:ident $namespace:literal { $($constant:ident $local:literal),+ $(,)? })+) => {
        $(
            $(#[$doc])*
            pub(in crate::local::export) mod $prefix {
                use oxrdf::NamedNodeRef;
                $(
                    pub(in crate::local::export) const $constant: NamedNodeRef<'_> =
                        NamedNodeRef::new_unchecked(concat!($namespace, $local));
                )+
            }
        )+

        /// Prefixes: name and IRI.
        pub(in crate::local::export) const PREFIXES: &[(&str, &str)] = &[$((stringify!($prefix), $namespace)),+];

        /// Terms: name and IRI.
        pub(in crate::local::export) const TERMS: &[(&str, &str)] =
            &[$($(($local, concat!($namespace, $local))),+),+];
    };
}

terms! {
    /// DCAT.
    dcat "http://www.w3.org/ns/dcat#" {
        DATASET "Dataset",
        DISTRIBUTION_CLASS "Distribution",
        ACCESS_URL "accessURL",
        DISTRIBUTION "distribution",
        DOWNLOAD_URL "downloadURL",
        KEYWORD "keyword",
        MEDIA_TYPE "mediaType",
        THEME "theme",
    }
    /// Dublin Core terms.
    dct "http://purl.org/dc/terms/" {
        DESCRIPTION "description",
        FORMAT "format",
        IDENTIFIER "identifier",
        ISSUED "issued",
        LICENSE "license",
        MODIFIED "modified",
        PUBLISHER "publisher",
        TITLE "title",
    }
    /// FOAF.
    foaf "http://xmlns.com/foaf/0.1/" {
        AGENT "Agent",
        NAME "name",
    }
    /// ODRL.
    odrl "http://www.w3.org/ns/odrl/2/" {
        HAS_POLICY "hasPolicy",
    }
    /// PROV.
    prov "http://www.w3.org/ns/prov#" {
        WAS_DERIVED_FROM "wasDerivedFrom",
    }
}

/// `rdf:JSON`.
pub(in crate::local::export) const RDF_JSON: oxrdf::NamedNodeRef<'_> =
    oxrdf::NamedNodeRef::new_unchecked("http://www.w3.org/1999/02/22-rdf-syntax-ns#JSON");
