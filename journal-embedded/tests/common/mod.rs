//! What the integration tests share.

use std::sync::Arc;

use bytes::Bytes;
use journal_core::{
    AtomicWrite, CodecId, EncodedEvent, EventStream, JournalError, Manifest, PersistenceId, Record,
    SequenceNr, Timestamp,
};

pub(crate) fn id(text: &str) -> PersistenceId {
    PersistenceId::new(text).unwrap()
}

pub(crate) fn at(number: u64) -> SequenceNr {
    SequenceNr::new(number)
}

pub(crate) fn event(payload: impl Into<Bytes>) -> EncodedEvent {
    EncodedEvent {
        payload: payload.into(),
        codec: CodecId::JSON,
        manifest: Manifest::from_static("event"),
        schema_version: 1,
        timestamp: Timestamp(1_700_000_000_000),
        tags: Vec::new(),
        metadata: Bytes::new(),
    }
}

/// Atomic writes of these lengths, with distinct payloads.
pub(crate) fn writes(lengths: &[usize]) -> Arc<[AtomicWrite]> {
    lengths
        .iter()
        .enumerate()
        .map(|(write, length)| {
            AtomicWrite::from(
                (0..*length)
                    .map(|index| event(format!("{write}.{index}")))
                    .collect::<Vec<_>>(),
            )
        })
        .collect()
}

pub(crate) async fn collect(mut events: EventStream) -> Result<Vec<Record>, JournalError> {
    let mut all = Vec::new();
    while let Some(chunk) = events.next_chunk().await {
        all.extend(chunk?);
    }
    Ok(all)
}

pub(crate) fn numbers(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.sequence_nr.get()).collect()
}
