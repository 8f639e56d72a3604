//! `trawler queue`.

mod args;
mod confirm;

use std::io;

pub(super) use self::args::QueueArgs;
use self::args::{DropArgs, ListArgs, OneArgs, OutputOptions, QueueCommand, RetryArgs, TaskListArgs};
use self::confirm::confirm;
use super::common::{block_on, colours_on, complain, fail, print, terminal_width};
use super::exit;
use crate::clock::{SharedClock, SystemClock};
use crate::local::queue::{
    Answer, AskError, Look, Output, acl_lines, audit, choose_dead, choose_run, choose_waiting, dead, doctor,
    drop_tasks, lanes, peek, retry_dead, runs, set_frozen, show,
};
use crate::queue::redis::RedisSettings;
use crate::queue::{Queue, SharedQueue};
use crate::task::RunId;

pub(super) fn main(args: QueueArgs) -> u8 {
    let clock = SystemClock::shared();
    if matches!(args.command, QueueCommand::Acl) {
        return match acl_lines(&args.redis.instance) {
            Ok(lines) => {
                print(lines);
                exit::OK
            }
            Err(error) => failed(&error),
        };
    }
    block_on(async move {
        let settings = match args.redis.settings() {
            Ok(settings) => settings,
            Err(code) => return code,
        };
        let queue = match args.redis.open(clock.clone()) {
            Ok(queue) => queue,
            Err(code) => return code,
        };
        let asked = Asked { queue, settings, clock };
        let done = match args.command {
            QueueCommand::Ls(args) => asked.ls(&args).await,
            QueueCommand::Show(args) => asked.show(&args).await,
            QueueCommand::Lanes(args) => asked.lanes(&args).await,
            QueueCommand::Peek(args) => asked.peek(&args).await,
            QueueCommand::Dead(args) => asked.dead(&args).await,
            QueueCommand::Retry(args) => asked.retry(&args).await,
            QueueCommand::Drop(args) => asked.drop(&args).await,
            QueueCommand::Freeze(args) => asked.set_frozen(&args, true).await,
            QueueCommand::Thaw(args) => asked.set_frozen(&args, false).await,
            QueueCommand::Audit(args) => asked.audit(&args).await,
            QueueCommand::Doctor(args) => asked.doctor(&args).await,
            QueueCommand::Acl => Ok(exit::OK),
        };
        done.unwrap_or_else(|error| failed(&error))
    })
}

/// The queue that is asked, and the time.
struct Asked {
    queue: SharedQueue,
    settings: RedisSettings,
    clock: SharedClock,
}

type Done = Result<u8, AskError>;

impl Asked {
    fn queue(&self) -> &dyn Queue {
        self.queue.as_ref()
    }

    fn look(&self, options: &OutputOptions) -> Look {
        Look {
            output: options.output,
            now: self.clock.now(),
            max_width: terminal_width(),
            colours: colours_on(&io::stdout()),
        }
    }

    fn print(&self, answer: &impl Answer, options: &OutputOptions) {
        print(answer.render(&self.look(options)));
    }

    async fn run(&self, named: Option<&String>) -> Result<RunId, AskError> {
        choose_run(self.queue(), named.map(|name| RunId::from(name.as_str())).as_ref()).await
    }

    async fn ls(&self, args: &ListArgs) -> Done {
        self.print(&runs(self.queue()).await?, &args.output);
        Ok(exit::OK)
    }

    async fn show(&self, args: &OneArgs) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        self.print(&show(self.queue(), &run, &self.look(&args.output)).await?, &args.output);
        Ok(exit::OK)
    }

    async fn lanes(&self, args: &TaskListArgs) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        let list = lanes(self.queue(), &run, args.limit).await?;
        self.print(&list, &args.output);
        warn_of_more(list.has_more, args);
        Ok(exit::OK)
    }

    async fn peek(&self, args: &TaskListArgs) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        let list = peek(self.queue(), &run, args.limit).await?;
        self.print(&list, &args.output);
        warn_of_more(list.has_more, args);
        Ok(exit::OK)
    }

    async fn dead(&self, args: &TaskListArgs) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        let list = dead(self.queue(), &run, args.limit).await?;
        self.print(&list, &args.output);
        warn_of_more(list.has_more, args);
        Ok(exit::OK)
    }

    async fn retry(&self, args: &RetryArgs) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        let tasks = if args.all { None } else { Some(choose_dead(self.queue(), &run, &args.tasks).await?) };
        let retried = retry_dead(self.queue(), &run, tasks.as_deref()).await?;
        self.print(&retried, &args.output);
        Ok(if retried.is_whole() { exit::OK } else { exit::FAILED })
    }

    async fn drop(&self, args: &DropArgs) -> Done {
        let run = self.run(Some(&args.run)).await?;
        let tasks = choose_waiting(self.queue(), &run, &args.tasks).await?;
        if !args.yes && !confirm(&run, tasks.len() as u64)? {
            return Ok(fail("nothing was dropped", exit::FAILED));
        }
        let dropped = drop_tasks(self.queue(), &run, &tasks).await?;
        self.print(&dropped, &args.output);
        Ok(if dropped.is_whole() { exit::OK } else { exit::FAILED })
    }

    async fn set_frozen(&self, args: &OneArgs, frozen: bool) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        self.print(&set_frozen(self.queue(), &run, frozen).await?, &args.output);
        Ok(exit::OK)
    }

    async fn doctor(&self, args: &ListArgs) -> Done {
        let diagnosis = doctor(&self.settings).await?;
        self.print(&diagnosis, &args.output);
        Ok(if diagnosis.has_problems() { exit::FAILED } else { exit::OK })
    }

    async fn audit(&self, args: &OneArgs) -> Done {
        let run = self.run(args.run.as_ref()).await?;
        let audited = audit(self.queue(), &run).await?;
        self.print(&audited, &args.output);
        Ok(if audited.repaired.is_empty() { exit::OK } else { exit::FAILED })
    }
}

fn failed(error: &AskError) -> u8 {
    fail(error, if error.is_usage() { exit::USAGE } else { exit::FAILED })
}

/// A program that reads the rows must not take a part for the whole.
fn warn_of_more(has_more: bool, args: &TaskListArgs) {
    if has_more && args.output.output == Output::Json {
        complain(format_args!("there are more than {}; raise --limit", args.limit));
    }
}
