//! The stream of a replay.

use std::{
    fmt,
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
            match self.chunks.next().await? {
                Ok(records) if records.is_empty() => {}
                chunk => return Some(chunk),
            }
        }
    }
}

impl Stream for EventStream {
    type Item = Result<Record, JournalError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(record) = self.chunk.next() {
                return Poll::Ready(Some(Ok(record)));
            }
            match ready!(self.chunks.poll_next_unpin(context)) {
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
