//! The stream of a replay.

use std::{
    fmt,
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll, ready},
    vec,
};

use futures_core::Stream;
use futures_util::{StreamExt, stream};

use crate::{ErrorKind, JournalError, Operation, PersistenceId, Record, SequenceNr};

type Chunk = Result<Vec<Record>, JournalError>;

/// The events of a replay, read in chunks as they are asked for.
///
/// As a [`Stream`] it gives single records; [`next_chunk`](EventStream::next_chunk) gives them as they were read and
/// costs less per record. After an error it ends.
pub struct EventStream {
    chunks: Pin<Box<dyn Stream<Item = Chunk> + Send>>,
    chunk: vec::IntoIter<Record>,
}

impl EventStream {
    /// From the chunks that a backend reads. A backend whose numbers have no gaps uses
    /// [`contiguous`](EventStream::contiguous).
    pub fn new(chunks: impl Stream<Item = Chunk> + Send + 'static) -> Self {
        Self {
            chunks: Box::pin(chunks),
            chunk: Vec::new().into_iter(),
        }
    }

    /// No events.
    #[must_use]
    pub fn empty() -> Self {
        Self::new(stream::empty())
    }

    /// Only an error.
    #[must_use]
    pub fn failed(error: JournalError) -> Self {
        Self::new(stream::iter([Err(error)]))
    }

    /// What `opening`, awaited at the first poll, gives; its error is the only item.
    pub fn opened(opening: impl Future<Output = Result<Self, JournalError>> + Send + 'static) -> Self {
        Self::new(stream::once(opening).flat_map(|opened| {
            let Self { chunks, chunk } = opened.unwrap_or_else(Self::failed);
            stream::iter([Ok(chunk.collect())]).chain(chunks)
        }))
    }

    /// Chunks that must hold exactly the numbers `first` to `last`; a missing, repeated or surplus number, or an early
    /// end, becomes an [`ErrorKind::Corrupt`], so that a replay never ends silently.
    pub fn contiguous(
        id: PersistenceId,
        first: SequenceNr,
        last: SequenceNr,
        chunks: impl Stream<Item = Chunk> + Send + 'static,
    ) -> Self {
        let corrupt = move |at: SequenceNr, what: String| {
            JournalError::not_stored(
                ErrorKind::Corrupt,
                Operation::Replay,
                format!("{what}; restore the journal's data from a backup"),
            )
            .with_id(&id)
            .with_sequence_nr(at)
        };
        let state = (Box::pin(chunks), Some(first));
        Self::new(stream::unfold(state, move |(mut chunks, expected)| {
            let corrupt = corrupt.clone();
            async move {
                let mut next = expected?;
                let checked = match chunks.next().await {
                    None if next > last => return None,
                    None => Err(corrupt(next, format!("the replay ended before {last}"))),
                    Some(Err(error)) => Err(error),
                    Some(Ok(records)) => {
                        let wrong = records.iter().find(|record| {
                            let fits = record.sequence_nr == next && next <= last;
                            next = next.next();
                            !fits
                        });
                        match wrong {
                            Some(record) => {
                                let found = format!("found number {} instead", record.sequence_nr);
                                Err(corrupt(next.previous(), found))
                            }
                            None => Ok(records),
                        }
                    }
                };
                let following = checked.is_ok().then_some(next);
                Some((checked, (chunks, following)))
            }
        }))
    }

    /// The numbers `first` to `last`, [contiguous](EventStream::contiguous), by calling `read` with the next number
    /// wanted until `last` was read. An empty chunk is an early end.
    pub fn in_chunks<F>(
        id: PersistenceId,
        first: SequenceNr,
        last: SequenceNr,
        mut read: impl FnMut(SequenceNr) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = Result<Vec<Record>, JournalError>> + Send + 'static,
    {
        let chunks = stream::try_unfold(first, move |next| {
            let chunk = (next <= last).then(|| read(next));
            async move {
                let Some(chunk) = chunk else { return Ok(None) };
                let records = chunk.await?;
                let following = records.last().map(|record| record.sequence_nr.next());
                Ok(following.map(|following| (records, following)))
            }
        });
        Self::contiguous(id, first, last, chunks)
    }

    /// The next records, at least one; `None` at the end.
    pub async fn next_chunk(&mut self) -> Option<Chunk> {
        loop {
            let rest = std::mem::take(&mut self.chunk);
            if rest.len() > 0 {
                return Some(Ok(rest.collect()));
            }
            match poll_fn(|context| self.poll_chunk(context)).await? {
                Ok(records) if records.is_empty() => {}
                chunk => return Some(chunk),
            }
        }
    }

    fn poll_chunk(&mut self, context: &mut Context<'_>) -> Poll<Option<Chunk>> {
        let chunk = ready!(self.chunks.poll_next_unpin(context));
        if !matches!(chunk, Some(Ok(_))) {
            // A backend's stream may go on after an error, or panic when it is asked again after its end.
            self.chunks = Box::pin(stream::empty());
        }
        Poll::Ready(chunk)
    }
}

impl Stream for EventStream {
    type Item = Result<Record, JournalError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(record) = self.chunk.next() {
                return Poll::Ready(Some(Ok(record)));
            }
            match ready!(self.poll_chunk(context)) {
                Some(Ok(records)) => self.chunk = records.into_iter(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl fmt::Debug for EventStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventStream")
            .field("buffered", &self.chunk.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{CodecId, EncodedEvent, Epoch, Manifest, Timestamp, WriterId};

    fn records(numbers: &[u64]) -> Vec<Record> {
        let record = |number: &u64| Record {
            sequence_nr: SequenceNr::new(*number),
            writer: WriterId::from_bytes([0; 16]),
            epoch: Epoch::from_u64(1),
            commit_order: None,
            event: EncodedEvent {
                payload: Bytes::new(),
                codec: CodecId::JSON,
                manifest: Manifest::from_static("e"),
                schema_version: 0,
                timestamp: Timestamp(0),
                tags: Vec::new(),
                metadata: Bytes::new(),
            },
        };
        numbers.iter().map(record).collect()
    }

    fn failure() -> JournalError {
        JournalError::not_stored(ErrorKind::Timeout, Operation::Replay, "no answer")
    }

    fn contiguous(first: u64, last: u64, chunks: Vec<Chunk>) -> EventStream {
        EventStream::contiguous(
            PersistenceId::new("a").unwrap(),
            SequenceNr::new(first),
            SequenceNr::new(last),
            stream::iter(chunks),
        )
    }

    /// What a consumer sees: the numbers delivered, and the error that ended it with its number.
    async fn seen(mut events: EventStream) -> (Vec<u64>, Option<(ErrorKind, Option<u64>)>) {
        let mut numbers = Vec::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(record) => numbers.push(record.sequence_nr.get()),
                Err(error) => {
                    for _ in 0..2 {
                        assert!(events.next().await.is_none(), "it goes on after {error}");
                    }
                    return (
                        numbers,
                        Some((error.kind(), error.sequence_nr().map(SequenceNr::get))),
                    );
                }
            }
        }
        assert!(events.next().await.is_none());
        assert!(events.next_chunk().await.is_none());
        (numbers, None)
    }

    async fn checked(
        first: u64,
        last: u64,
        chunks: &[&[u64]],
    ) -> (Vec<u64>, Option<(ErrorKind, Option<u64>)>) {
        let chunks = chunks.iter().map(|numbers| Ok(records(numbers))).collect();
        seen(contiguous(first, last, chunks)).await
    }

    fn corrupt_at(number: u64) -> Option<(ErrorKind, Option<u64>)> {
        Some((ErrorKind::Corrupt, Some(number)))
    }

    #[tokio::test]
    async fn all_numbers_of_a_range_pass_in_any_chunks() {
        assert_eq!(checked(3, 6, &[&[3, 4, 5, 6]]).await, (vec![3, 4, 5, 6], None));
        assert_eq!(
            checked(3, 6, &[&[], &[3], &[4, 5], &[], &[6]]).await,
            (vec![3, 4, 5, 6], None)
        );
    }

    #[tokio::test]
    async fn a_missing_first_number_is_corrupt() {
        assert_eq!(checked(1, 3, &[&[2, 3]]).await, (vec![], corrupt_at(1)));
    }

    #[tokio::test]
    async fn a_missing_number_in_the_middle_is_corrupt() {
        assert_eq!(checked(1, 4, &[&[1], &[2, 4]]).await, (vec![1], corrupt_at(3)));
        assert_eq!(checked(1, 4, &[&[1, 2], &[4]]).await, (vec![1, 2], corrupt_at(3)));
    }

    #[tokio::test]
    async fn a_missing_last_number_is_corrupt() {
        assert_eq!(checked(1, 3, &[&[1, 2]]).await, (vec![1, 2], corrupt_at(3)));
        assert_eq!(checked(1, 3, &[]).await, (vec![], corrupt_at(1)));
        assert_eq!(checked(1, 3, &[&[]]).await, (vec![], corrupt_at(1)));
    }

    #[tokio::test]
    async fn a_repeated_number_is_corrupt() {
        assert_eq!(checked(1, 3, &[&[1, 1, 2, 3]]).await, (vec![], corrupt_at(2)));
        assert_eq!(
            checked(1, 3, &[&[1, 2], &[2, 3]]).await,
            (vec![1, 2], corrupt_at(3))
        );
    }

    #[tokio::test]
    async fn a_surplus_number_is_corrupt() {
        assert_eq!(checked(1, 2, &[&[1, 2], &[3]]).await, (vec![1, 2], corrupt_at(3)));
        assert_eq!(checked(1, 2, &[&[1, 2, 3]]).await, (vec![], corrupt_at(3)));
        assert_eq!(checked(2, 3, &[&[1, 2, 3]]).await, (vec![], corrupt_at(2)));
    }

    #[tokio::test]
    async fn an_error_passes_through_and_ends_the_stream() {
        let chunks = vec![Ok(records(&[1])), Err(failure()), Ok(records(&[2]))];
        assert_eq!(
            seen(contiguous(1, 2, chunks)).await,
            (vec![1], Some((ErrorKind::Timeout, None)))
        );
        let unchecked = vec![Ok(records(&[1])), Err(failure()), Ok(records(&[2]))];
        assert_eq!(
            seen(EventStream::new(stream::iter(unchecked))).await,
            (vec![1], Some((ErrorKind::Timeout, None)))
        );
    }

    #[tokio::test]
    async fn reading_in_chunks_asks_for_what_follows_and_no_further() {
        let read = |next: SequenceNr| {
            assert!(next.get() <= 5, "asked for {next}");
            std::future::ready(Ok(records(&[next.get(), next.get() + 1])))
        };
        let events = EventStream::in_chunks(
            PersistenceId::new("a").unwrap(),
            SequenceNr::new(2),
            SequenceNr::new(5),
            read,
        );
        assert_eq!(seen(events).await, (vec![2, 3, 4, 5], None));
    }

    #[tokio::test]
    async fn reading_an_empty_chunk_is_an_early_end() {
        let events = EventStream::in_chunks(
            PersistenceId::new("a").unwrap(),
            SequenceNr::new(1),
            SequenceNr::new(2),
            |next| std::future::ready(Ok(records(if next == SequenceNr::FIRST { &[1] } else { &[] }))),
        );
        assert_eq!(seen(events).await, (vec![1], corrupt_at(2)));
    }

    #[tokio::test]
    async fn an_opened_stream_keeps_what_was_buffered_and_fails_with_its_opening() {
        let opened = EventStream::opened(async {
            let mut events = contiguous(1, 3, vec![Ok(records(&[1, 2])), Ok(records(&[3]))]);
            events.next().await.unwrap()?;
            Ok(events)
        });
        assert_eq!(seen(opened).await, (vec![2, 3], None));
        let failed = EventStream::opened(async { Err(failure()) });
        assert_eq!(seen(failed).await, (vec![], Some((ErrorKind::Timeout, None))));
    }

    #[tokio::test]
    async fn chunks_and_single_records_mix() {
        let mut events = contiguous(1, 4, vec![Ok(records(&[1, 2, 3])), Ok(records(&[4]))]);
        assert_eq!(events.next().await.unwrap().unwrap().sequence_nr.get(), 1);
        assert_eq!(events.next_chunk().await.unwrap().unwrap().len(), 2);
        assert_eq!(events.next_chunk().await.unwrap().unwrap().len(), 1);
        assert!(events.next_chunk().await.is_none());
    }
}
