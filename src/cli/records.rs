//! `trawler records`.

use std::io;
use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::common::{block_on, complain, fail, print, terminal_width};
use super::exit;
use crate::local::export::{Format, export};
use crate::local::records::{Output, changes, find, list};
use crate::local::{Report, read_report};
use crate::store::files::FileStore;
use crate::store::{RecordFilter, Store as _};
use crate::task::{CatalogName, NodeName, SectionPath};

/// Look at the records of a local result: list them, show one, export them, list what changed.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  trawler records ls -d out --changed\n  trawler records get -d out https://portal.example/dataset/1\n  trawler records export -d out --format turtle > all.ttl\n  trawler records changes -d out --after 1200 -o jsonl"
)]
pub(super) struct RecordsArgs {
    #[command(subcommand)]
    command: RecordsCommand,
}

#[derive(Debug, Subcommand)]
enum RecordsCommand {
    /// List records; those of a node that can't be read are marked stale
    Ls(LsArgs),
    /// Show one record
    Get(GetArgs),
    /// Write all records in a format, to standard output
    Export(ExportArgs),
    /// List what was added, updated and deleted, in order
    Changes(ChangesArgs),
}

/// Which result.
#[derive(Debug, Args)]
struct ResultOptions {
    /// The directory that `trawler run -d` wrote
    #[arg(long, short, value_name = "DIR", default_value = "out")]
    dir: PathBuf,
    /// The Catalog, if not the one of the last run
    #[arg(long, value_name = "NAME")]
    catalog: Option<String>,
}

/// Which records.
#[derive(Debug, Args)]
struct FilterOptions {
    /// Only those of this node
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Only those that the last run added or updated
    #[arg(long)]
    changed: bool,
}

#[derive(Debug, Args)]
struct LsArgs {
    #[command(flatten)]
    result: ResultOptions,
    #[command(flatten)]
    filter: FilterOptions,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    limit: usize,
    /// How they are printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
struct GetArgs {
    #[command(flatten)]
    result: ResultOptions,
    /// The record's id, exactly as `ls` shows it
    #[arg(value_name = "ID")]
    id: String,
    /// Its node, if several have the id
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
    /// Its section, if several have the id
    #[arg(long, value_name = "SECTION")]
    section: Option<String>,
    /// How it is printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
}

#[derive(Debug, Args)]
struct ExportArgs {
    #[command(flatten)]
    result: ResultOptions,
    #[command(flatten)]
    filter: FilterOptions,
    /// How they are written
    #[arg(long, value_enum, default_value = "jsonl")]
    format: Format,
}

#[derive(Debug, Args)]
struct ChangesArgs {
    #[command(flatten)]
    result: ResultOptions,
    /// Go on after this cursor; 0 is the beginning
    #[arg(long, value_name = "CURSOR", default_value_t = 0)]
    after: u64,
    /// At most so many
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    limit: usize,
    /// How they are printed
    #[arg(long, short, value_enum, default_value = "text")]
    output: Output,
}

/// An opened result.
struct Opened {
    store: FileStore,
    catalog: CatalogName,
    last: Option<Report>,
}

impl ResultOptions {
    fn open(&self) -> Result<Opened, u8> {
        let last = read_report(&self.dir).map_err(|error| fail(error, exit::USAGE))?;
        let named = self.catalog.as_deref().map(CatalogName::from);
        let Some(catalog) = named.or_else(|| last.as_ref().map(|report| report.catalog.clone())) else {
            let why =
                format_args!("{} holds no finished run; run `trawler run -f FILE -d {0}` first", self.dir.display());
            return Err(fail(why, exit::USAGE));
        };
        let store = FileStore::open_read_only(&self.dir).map_err(|error| fail(error, exit::USAGE))?;
        Ok(Opened { store, catalog, last })
    }
}

impl FilterOptions {
    fn filter(&self, last: Option<&Report>) -> RecordFilter {
        RecordFilter {
            node: self.node.as_deref().map(NodeName::from),
            changed_in: last.filter(|_| self.changed).map(|report| report.run.clone()),
        }
    }
}

pub(super) fn main(args: RecordsArgs) -> u8 {
    block_on(async move {
        let done = match args.command {
            RecordsCommand::Ls(args) => ls(args).await,
            RecordsCommand::Get(args) => get(args).await,
            RecordsCommand::Export(args) => export_all(args).await,
            RecordsCommand::Changes(args) => list_changes(args).await,
        };
        done.err().unwrap_or(exit::OK)
    })
}

async fn ls(args: LsArgs) -> Result<(), u8> {
    let opened = args.result.open()?;
    let filter = args.filter.filter(opened.last.as_ref());
    check_node(&opened, filter.node.as_ref()).await?;
    let rows = list(&opened.store, &opened.catalog, &filter, args.limit).await.map_err(failed)?;
    print(rows.render(args.output, terminal_width()));
    warn_of_more(rows.has_more, args.limit, args.output);
    Ok(())
}

async fn get(args: GetArgs) -> Result<(), u8> {
    let opened = args.result.open()?;
    let (node, section) = (args.node.as_deref().map(NodeName::from), args.section.as_deref().map(SectionPath::from));
    let sheet =
        find(&opened.store, &opened.catalog, &args.id, node.as_ref(), section.as_ref()).await.map_err(failed)?;
    print(sheet.render(args.output));
    Ok(())
}

async fn export_all(args: ExportArgs) -> Result<(), u8> {
    let opened = args.result.open()?;
    let filter = args.filter.filter(opened.last.as_ref());
    match export(&opened.store, &opened.catalog, &filter, args.format, &mut io::stdout()).await {
        Err(error) if !error.is_broken_pipe() => Err(failed(error)),
        _ => Ok(()),
    }
}

async fn list_changes(args: ChangesArgs) -> Result<(), u8> {
    let opened = args.result.open()?;
    let found = changes(&opened.store, &opened.catalog, args.after, args.limit).await.map_err(failed)?;
    print(found.render(args.output, terminal_width()));
    warn_of_more(found.has_more, args.limit, args.output);
    Ok(())
}

/// A name that is no node of the Catalog would be answered with nothing, as if there were nothing.
async fn check_node(opened: &Opened, node: Option<&NodeName>) -> Result<(), u8> {
    let Some(node) = node else { return Ok(()) };
    let known = opened.store.nodes(&opened.catalog).await.map_err(failed)?;
    if known.contains_key(node) {
        return Ok(());
    }
    let names: Vec<&str> = known.keys().map(NodeName::as_str).take(20).collect();
    Err(fail(format_args!("Catalog {} has no node {node}; it has {}", opened.catalog, names.join(", ")), exit::USAGE))
}

/// A program that reads the rows must not take a part for the whole.
fn warn_of_more(has_more: bool, limit: usize, output: Output) {
    if has_more && output != Output::Text {
        complain(format_args!("there are more than {limit}; raise --limit"));
    }
}

fn failed(error: impl std::fmt::Display) -> u8 {
    fail(error, exit::FAILED)
}
