//! Runs one case: on a thread of its own, within a deadline, where it must be in a process of its own.

use std::{
    any::Any,
    env,
    fmt::{self, Debug},
    future::Future,
    io::Write,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    process::{self, Command},
    sync::mpsc,
    thread,
    time::Duration,
};

/// Why a case says nothing about a subject, for example a capability that is not declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotApplicable(pub String);

impl NotApplicable {
    /// `reason` ends the sentence "not applicable: ...".
    pub fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self(reason.into()))
    }
}

/// Why an engine cannot be tested here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absent {
    /// The name under which `JOURNAL_REQUIRE` demands the engine, for example `kafka`.
    pub engine: String,
    /// What is missing and how to get it.
    pub reason: String,
}

/// What a case answers; where it fails, it panics.
pub type Verdict = Result<(), NotApplicable>;

type Run<C> = for<'a> fn(&'a mut C) -> Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// One behaviour that every subject must show; `C` is what the case drives.
pub struct Case<C: 'static> {
    /// Theme and behaviour, for example `replay::stops_at_the_upper_bound_inclusive`.
    pub name: &'static str,
    pub(crate) run: Run<C>,
}

impl<C> Clone for Case<C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Case<C> {}

impl<C> Debug for Case<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.name).finish()
    }
}

impl<C> Case<C> {
    /// True if the case measures its whole process, so that nothing else may run in it.
    fn is_isolated(&self) -> bool {
        self.name.starts_with("memory::")
    }
}

/// The case of this name.
///
/// # Panics
/// If there is none.
pub(crate) fn find<C>(cases: &[Case<C>], name: &str) -> Case<C> {
    *cases
        .iter()
        .find(|case| case.name == name)
        .unwrap_or_else(|| panic!("no case is called {name}"))
}

/// How a case ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The subject shows the behaviour.
    Passed,
    /// The case says nothing about the subject.
    NotApplicable(String),
    /// The subject's engine is not there.
    Absent(Absent),
    /// This process was started to run another case, alone.
    NotThisOne,
    /// The subject is wrong; the text is the panic's.
    Failed(String),
    /// The case did not end within this time.
    TimedOut(Duration),
}

/// Who is tested, by which test.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Tells apart the subjects of one test.
    pub label: String,
    /// The test's name as `cargo test -- --exact` takes it: how a process of its own finds back to the same case.
    pub test: String,
    /// How long a case may take.
    pub deadline: Duration,
}

impl Subject {
    /// The subject of a test function `name` in the module that [`module_path!`] names.
    #[must_use]
    pub fn new(label: impl Into<String>, module_path: &str, name: &str, deadline: Duration) -> Self {
        let test = match module_path.split_once("::") {
            Some((_crate, module)) => format!("{module}::{name}"),
            None => name.to_owned(),
        };
        Self {
            label: label.into(),
            test,
            deadline,
        }
    }
}

/// Names, to the child, the case and the subject that it was started for.
const CHILD: &str = "JOURNAL_CONFORMANCE_CHILD";
/// Begins the line in which the child answers.
const ANSWER: &str = "journal-conformance child: ";

/// Runs `case` on what `create` makes.
pub(crate) fn check<C, F>(
    case: Case<C>,
    subject: &Subject,
    create: impl FnOnce() -> F + Send + 'static,
) -> Outcome
where
    F: Future<Output = Result<C, Absent>>,
{
    let key = format!("{} on {}", case.name, subject.label);
    match env::var(CHILD) {
        Ok(wanted) if wanted == key => answer(&within_deadline(case, subject.deadline, create)),
        Ok(_) => Outcome::NotThisOne,
        Err(_) if case.is_isolated() => in_child(subject, &key),
        Err(_) => within_deadline(case, subject.deadline, create),
    }
}

/// Runs `case` as a test.
///
/// # Panics
/// If the subject fails it, or is absent although `JOURNAL_REQUIRE` names it.
pub(crate) fn require<C, F>(case: Case<C>, subject: &Subject, create: impl FnOnce() -> F + Send + 'static)
where
    F: Future<Output = Result<C, Absent>>,
{
    let name = case.name;
    match check(case, subject, create) {
        Outcome::Passed | Outcome::NotThisOne => {}
        Outcome::NotApplicable(reason) => note(&format!("{}: not applicable: {reason}", subject.test)),
        Outcome::Absent(Absent { engine, reason }) => {
            let required = env::var("JOURNAL_REQUIRE").unwrap_or_default();
            assert!(
                !names(&required, &engine),
                "{engine} is required but absent: {reason}"
            );
            note(&format!(
                "{}: ignored: {engine} is absent: {reason}",
                subject.test
            ));
        }
        Outcome::Failed(reason) => panic!("{name}: {reason}"),
        Outcome::TimedOut(deadline) => panic!("{name} did not end within {deadline:?}"),
    }
}

/// True if `required`, names with commas between them, has the engine among them.
fn names(required: &str, engine: &str) -> bool {
    required.split(',').any(|name| name.trim() == engine)
}

/// Written past the capture of test output: what did not run must be seen although the test counts as passed.
fn note(line: &str) {
    // A closed stderr is no reason to fail.
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn within_deadline<C, F>(
    case: Case<C>,
    deadline: Duration,
    create: impl FnOnce() -> F + Send + 'static,
) -> Outcome
where
    F: Future<Output = Result<C, Absent>>,
{
    let (sender, receiver) = mpsc::channel();
    // A thread, not a timer of the runtime: a subject that blocks its thread must not outlive the deadline either.
    thread::Builder::new()
        .name(case.name.to_owned())
        .spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(2)
                .enable_all()
                .build()
                .expect("a runtime starts");
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                runtime.block_on(async {
                    match create().await {
                        Err(absent) => Outcome::Absent(absent),
                        Ok(mut context) => match (case.run)(&mut context).await {
                            Ok(()) => Outcome::Passed,
                            Err(NotApplicable(reason)) => Outcome::NotApplicable(reason),
                        },
                    }
                })
            }))
            .unwrap_or_else(|panic| Outcome::Failed(text_of(&*panic)));
            // The receiver is gone if the deadline has passed.
            let _ = sender.send(outcome);
            runtime.shutdown_background();
        })
        .expect("a thread starts");
    receiver
        .recv_timeout(deadline)
        .unwrap_or(Outcome::TimedOut(deadline))
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("a panic without a text")
        .to_owned()
}

fn in_child(subject: &Subject, key: &str) -> Outcome {
    let child = Command::new(env::current_exe().expect("this program has a path"))
        .args([&subject.test, "--exact", "--nocapture"])
        .env(CHILD, key)
        .output()
        .expect("a process starts");
    let output = String::from_utf8_lossy(&child.stdout);
    let answer = output.lines().find_map(|line| Some(line.split_once(ANSWER)?.1));
    match answer.map(|answer| answer.split_once(' ').unwrap_or((answer, ""))) {
        Some(("passed", _)) => Outcome::Passed,
        Some(("not-applicable", reason)) => Outcome::NotApplicable(reason.to_owned()),
        Some(("absent", absent)) => {
            let (engine, reason) = absent.split_once(' ').unwrap_or((absent, ""));
            Outcome::Absent(Absent {
                engine: engine.to_owned(),
                reason: reason.to_owned(),
            })
        }
        Some(("timed-out", _)) => Outcome::TimedOut(subject.deadline),
        Some(("failed", reason)) => Outcome::Failed(reason.to_owned()),
        _ => Outcome::Failed(format!(
            "the process of {key} ended without an answer, {}: {output}{}",
            child.status,
            String::from_utf8_lossy(&child.stderr)
        )),
    }
}

/// Answers the parent in one line and ends the process: the rest of its test is the parent's business.
fn answer(outcome: &Outcome) -> ! {
    let line = match outcome {
        Outcome::Passed | Outcome::NotThisOne => "passed".to_owned(),
        Outcome::NotApplicable(reason) => format!("not-applicable {reason}"),
        Outcome::Absent(absent) => format!("absent {} {}", absent.engine, absent.reason),
        Outcome::Failed(reason) => format!("failed {reason}"),
        Outcome::TimedOut(_) => "timed-out".to_owned(),
    };
    let mut out = std::io::stdout();
    let _ = writeln!(out, "\n{ANSWER}{}", line.replace('\n', " "));
    let _ = out.flush();
    process::exit(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(run: Run<()>, created: Result<(), Absent>) -> Outcome {
        let case = Case {
            name: "runner::case",
            run,
        };
        within_deadline(case, Duration::from_millis(200), || async { created })
    }

    #[test]
    fn a_case_passes_fails_or_does_not_apply() {
        assert_eq!(outcome(|()| Box::pin(async { Ok(()) }), Ok(())), Outcome::Passed);
        assert_eq!(
            outcome(|()| Box::pin(async { panic!("wrong {}", 5) }), Ok(())),
            Outcome::Failed("wrong 5".to_owned())
        );
        assert_eq!(
            outcome(|()| Box::pin(async { NotApplicable::because("no tags") }), Ok(())),
            Outcome::NotApplicable("no tags".to_owned())
        );
    }

    #[test]
    fn an_absent_engine_is_not_tested() {
        let absent = Absent {
            engine: "kafka".to_owned(),
            reason: "no broker at localhost:9092".to_owned(),
        };
        let never = outcome(|()| Box::pin(async { panic!("it ran") }), Err(absent.clone()));
        assert_eq!(never, Outcome::Absent(absent));
    }

    #[test]
    fn a_case_that_waits_for_ever_ends_at_its_deadline() {
        let waits = outcome(|()| Box::pin(std::future::pending()), Ok(()));
        assert_eq!(waits, Outcome::TimedOut(Duration::from_millis(200)));
    }

    #[test]
    fn a_case_that_blocks_its_thread_ends_at_its_deadline() {
        let blocks = outcome(
            |()| {
                Box::pin(async {
                    loop {
                        thread::park();
                    }
                })
            },
            Ok(()),
        );
        assert_eq!(blocks, Outcome::TimedOut(Duration::from_millis(200)));
    }

    #[test]
    fn required_engines_are_named_with_commas_between() {
        assert!(names("kafka, cassandra", "kafka"));
        assert!(names("kafka, cassandra", "cassandra"));
        assert!(!names("kafka,cassandra", "cassandra2"));
        assert!(!names("", "kafka"));
    }

    #[test]
    fn a_subject_knows_the_name_of_its_test() {
        let deadline = Duration::from_secs(1);
        let nested = Subject::new("", "memory::concrete::replay", "is_whole", deadline);
        assert_eq!(nested.test, "concrete::replay::is_whole");
        let top = Subject::new("", "memory", "is_whole", deadline);
        assert_eq!(top.test, "is_whole");
    }
}
