//! What a case of the journal contract drives.

use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::TryStreamExt;
use journal_core::{
    Appended, AtomicWrite, Bounds, Capabilities, Claim, CodecId, Deletion, EncodedEvent, Fencing, Journal,
    JournalError, Manifest, PersistenceId, Record, ReplayRange, SequenceNr, Timestamp, WriterId,
};

use crate::{
    cases::journal::journal_cases,
    runner::{self, Absent, Case, NotApplicable, Outcome, Subject, Verdict},
};

/// How a stored event is damaged behind the journal's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// It is gone, its neighbours are there.
    Missing,
    /// Its bytes are no longer what was written.
    Corrupt,
}

/// A store of its own for each case; dropped after it, so that it can own a temporary directory.
#[async_trait]
pub trait JournalFixture: Send + Sync + 'static {
    /// An empty store.
    ///
    /// # Errors
    /// [`Absent`] if the engine is not there.
    async fn create() -> Result<Self, Absent>
    where
        Self: Sized;

    /// Opens the store: at first, again after each restart, when every handle of the former opening is dropped, and
    /// as another process would while the first is open, if the journal declares `cross_process`.
    async fn open(&self) -> Arc<dyn Journal>;

    /// Whether the store can be opened again with what was acknowledged.
    ///
    /// # Errors
    /// Why not, for a store that ends with its process.
    fn restarts(&self) -> Verdict {
        Ok(())
    }

    /// Damages the stored event `at` of `id`.
    ///
    /// # Errors
    /// By default: this fixture cannot.
    async fn damage(&self, _id: &PersistenceId, _at: SequenceNr, _damage: Damage) -> Verdict {
        NotApplicable::because("the fixture cannot damage stored events")
    }

    /// Lets the engine answer no more (true), then again (false).
    ///
    /// # Errors
    /// By default: this fixture cannot.
    async fn silence(&self, _silent: bool) -> Verdict {
        NotApplicable::because("the fixture cannot silence its engine")
    }

    /// How long a case may take, 60 seconds unless overridden.
    #[must_use]
    fn deadline() -> Duration
    where
        Self: Sized,
    {
        Duration::from_secs(60)
    }
}

/// The store of another fixture, used through `Arc<dyn Journal>` as a [`Journal`] of its own.
#[derive(Debug)]
pub struct Through<F>(F);

#[async_trait]
impl<F: JournalFixture> JournalFixture for Through<F> {
    async fn create() -> Result<Self, Absent> {
        F::create().await.map(Self)
    }

    async fn open(&self) -> Arc<dyn Journal> {
        let journal: Arc<dyn Journal> = self.0.open().await;
        Arc::new(journal)
    }

    fn restarts(&self) -> Verdict {
        self.0.restarts()
    }

    async fn damage(&self, id: &PersistenceId, at: SequenceNr, damage: Damage) -> Verdict {
        self.0.damage(id, at, damage).await
    }

    async fn silence(&self, silent: bool) -> Verdict {
        self.0.silence(silent).await
    }

    fn deadline() -> Duration {
        F::deadline()
    }
}

/// An opened journal and the store behind it.
#[expect(missing_debug_implementations, reason = "fixtures need not implement Debug")]
pub struct JournalUnderTest {
    fixture: Box<dyn JournalFixture>,
    journal: Option<Arc<dyn Journal>>,
}

impl JournalUnderTest {
    /// Opens the store of `fixture`.
    pub async fn open(fixture: impl JournalFixture) -> Self {
        let journal = Some(fixture.open().await);
        Self {
            fixture: Box::new(fixture),
            journal,
        }
    }

    fn opened(&self) -> &Arc<dyn Journal> {
        self.journal
            .as_ref()
            .expect("only a failed restart leaves no journal")
    }

    /// Borrowed, so that no case can hold it over a restart.
    pub(crate) fn journal(&self) -> &dyn Journal {
        &**self.opened()
    }

    /// For tasks; they end before a restart.
    pub(crate) fn shared(&self) -> Arc<dyn Journal> {
        self.opened().clone()
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.journal().capabilities()
    }

    /// A restart of the process: nothing but the store is left of what it had.
    pub(crate) async fn restart(&mut self) -> Verdict {
        self.fixture.restarts()?;
        drop(self.journal.take());
        self.journal = Some(self.fixture.open().await);
        Ok(())
    }

    pub(crate) async fn another_process(&self) -> Result<Arc<dyn Journal>, NotApplicable> {
        if !self.capabilities().cross_process {
            return NotApplicable::because("the journal declares that one process uses its data");
        }
        Ok(self.fixture.open().await)
    }

    /// Claims and stores `count` events of `size` bytes, in appends that every journal takes.
    pub(crate) async fn many(&self, id: &PersistenceId, count: u64, size: usize) {
        let most = (self.capabilities().largest_append / (size + 64)).clamp(1, 500);
        let mut claim = self.journal().claimed(id).await;
        let mut numbers = (1..=count).peekable();
        while numbers.peek().is_some() {
            let batch = numbers.by_ref().take(most);
            let writes = batch.map(|number| event(format!("{number:0size$}")).into());
            let stored = self.journal().write(&mut claim, writes.collect()).await;
            stored.expect("within the limits");
        }
    }

    pub(crate) async fn damage(&self, id: &PersistenceId, at: u64, damage: Damage) -> Verdict {
        self.fixture.damage(id, SequenceNr::new(at), damage).await
    }

    pub(crate) async fn silence(&self, silent: bool) -> Verdict {
        self.fixture.silence(silent).await
    }

    pub(crate) fn needs_fencing(&self) -> Verdict {
        match self.capabilities().fencing {
            Fencing::Claims => Ok(()),
            other => NotApplicable::because(format!("the journal declares Fencing::{other:?}")),
        }
    }
}

/// The calls of most cases, with the failures that none of them expects turned into panics.
pub(crate) trait Driven {
    async fn claimed(&self, id: &PersistenceId) -> Claim;
    /// Appends after what the claim knows, each inner list being an atomic write.
    async fn write(&self, claim: &mut Claim, writes: Arc<[AtomicWrite]>) -> Result<Appended, JournalError>;
    /// Claims and stores these texts, an event and an atomic write each.
    async fn stored(&self, id: &PersistenceId, texts: &[&str]) -> Claim;
    /// Claims and stores `a-1` to `a-5`, the last two in one atomic write.
    async fn five(&self, id: &PersistenceId) -> Claim;
    async fn bounds_of(&self, id: &PersistenceId) -> Bounds;
    async fn highest(&self, id: &PersistenceId) -> u64;
    async fn records(&self, id: &PersistenceId, range: ReplayRange) -> Vec<Record>;
    async fn texts(&self, id: &PersistenceId) -> Vec<String>;
    async fn numbers(&self, id: &PersistenceId, range: ReplayRange) -> Vec<u64>;
    async fn deleted(&self, id: &PersistenceId, to: u64) -> u64;
}

impl Driven for dyn Journal {
    async fn claimed(&self, id: &PersistenceId) -> Claim {
        self.claim(id, WriterId::random())
            .await
            .unwrap_or_else(|error| panic!("a claim failed: {error}"))
    }

    async fn write(&self, claim: &mut Claim, writes: Arc<[AtomicWrite]>) -> Result<Appended, JournalError> {
        let expected = claim.highest();
        self.append(claim, expected, writes).await
    }

    async fn stored(&self, id: &PersistenceId, texts: &[&str]) -> Claim {
        let mut claim = self.claimed(id).await;
        self.write(&mut claim, singles(texts))
            .await
            .unwrap_or_else(|error| panic!("an append failed: {error}"));
        claim
    }

    async fn five(&self, id: &PersistenceId) -> Claim {
        let mut claim = self.claimed(id).await;
        let writes = writes(&[&["a-1"], &["a-2"], &["a-3"], &["a-4", "a-5"]]);
        self.write(&mut claim, writes)
            .await
            .unwrap_or_else(|error| panic!("an append failed: {error}"));
        claim
    }

    async fn bounds_of(&self, id: &PersistenceId) -> Bounds {
        self.bounds(id)
            .await
            .unwrap_or_else(|error| panic!("reading the bounds failed: {error}"))
    }

    async fn highest(&self, id: &PersistenceId) -> u64 {
        self.bounds_of(id).await.highest.get()
    }

    async fn records(&self, id: &PersistenceId, range: ReplayRange) -> Vec<Record> {
        self.replay(id, range)
            .try_collect()
            .await
            .unwrap_or_else(|error| panic!("a replay failed: {error}"))
    }

    async fn texts(&self, id: &PersistenceId) -> Vec<String> {
        let records = self.records(id, ReplayRange::ALL).await;
        records.iter().map(text_of).collect()
    }

    async fn numbers(&self, id: &PersistenceId, range: ReplayRange) -> Vec<u64> {
        let records = self.records(id, range).await;
        records.iter().map(|record| record.sequence_nr.get()).collect()
    }

    async fn deleted(&self, id: &PersistenceId, to: u64) -> u64 {
        let incarnation = self
            .bounds_of(id)
            .await
            .incarnation
            .expect("an id with events has an incarnation");
        self.delete_to(id, plain_deletion(to, incarnation))
            .await
            .unwrap_or_else(|error| panic!("a deletion failed: {error}"))
            .get()
    }
}

pub(crate) fn plain_deletion(to: u64, incarnation: journal_core::Incarnation) -> Deletion {
    Deletion {
        to: SequenceNr::new(to),
        incarnation,
        fresh_start: false,
    }
}

pub(crate) fn id(text: &str) -> PersistenceId {
    PersistenceId::new(text).expect("the cases use legal ids")
}

pub(crate) fn event(payload: impl Into<Bytes>) -> EncodedEvent {
    EncodedEvent {
        payload: payload.into(),
        codec: CodecId::JSON,
        manifest: Manifest::from_static("conformance-event"),
        schema_version: 1,
        timestamp: Timestamp(1_700_000_000_000),
        tags: Vec::new(),
        metadata: Bytes::new(),
    }
}

pub(crate) fn writes(texts: &[&[&str]]) -> Arc<[AtomicWrite]> {
    texts
        .iter()
        .map(|write| {
            AtomicWrite::from(
                write
                    .iter()
                    .map(|text| event(text.to_string()))
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
}

pub(crate) fn singles(texts: &[&str]) -> Arc<[AtomicWrite]> {
    texts
        .iter()
        .map(|text| AtomicWrite::from(event(text.to_string())))
        .collect()
}

pub(crate) fn one(event: EncodedEvent) -> Arc<[AtomicWrite]> {
    Arc::from([AtomicWrite::from(event)])
}

pub(crate) fn text_of(record: &Record) -> String {
    String::from_utf8_lossy(&record.event.payload).into_owned()
}

pub(crate) fn range(from: u64, to: u64) -> ReplayRange {
    ReplayRange::between(SequenceNr::new(from), SequenceNr::new(to))
}

type Creation = Pin<Box<dyn Future<Output = Result<JournalUnderTest, Absent>>>>;

/// Runs one case on the store that `create` makes; for tests of the suite itself.
pub fn check_journal<F: JournalFixture>(
    case: Case<JournalUnderTest>,
    subject: &Subject,
    create: impl FnOnce() -> F + Send + 'static,
) -> Outcome {
    runner::check(case, subject, move || -> Creation {
        Box::pin(async move { Ok(JournalUnderTest::open(create()).await) })
    })
}

/// Runs the case of this name as the test that the macro expanded.
pub fn test_journal<F: JournalFixture>(case: &str, module_path: &str, test: &str) {
    let subject = Subject::new(std::any::type_name::<F>(), module_path, test, F::deadline());
    runner::require(runner::find(&journal_cases(), case), &subject, || -> Creation {
        Box::pin(async { Ok(JournalUnderTest::open(F::create().await?).await) })
    });
}
