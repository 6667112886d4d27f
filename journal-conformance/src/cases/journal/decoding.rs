//! What this program cannot read is an error at its place, never a skipped event.

use std::sync::Arc;

use futures_util::StreamExt;
use journal_core::{
    CodecId, EncodedEvent, ErrorKind, Event, EventSerializer, JournalError, Json, Manifest, Record,
    ReplayRange, Timestamp,
};
use serde::{Deserialize, Serialize};

use crate::{
    journal::{Driven, JournalUnderTest, id, one},
    runner::Verdict,
};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Counted {
    count: u64,
}

impl Event for Counted {
    const MANIFEST: &'static str = "counted";
    const VERSION: u32 = 2;
}

/// Stores three events, the second one changed by `change`, and decodes them in order.
async fn decoded(
    store: &JournalUnderTest,
    change: impl Fn(&mut EncodedEvent),
) -> Vec<Result<Counted, JournalError>> {
    let id = id("account|1");
    let serializer = EventSerializer::<Counted>::new(Arc::new(Json)).expect("a version is declared");
    let mut claim = store.journal().claimed(&id).await;
    for count in 1..=3 {
        let encoded = serializer.encode(&Counted { count }, Timestamp(0));
        let mut event = encoded.expect("it encodes");
        if count == 2 {
            change(&mut event);
        }
        let stored = store.journal().write(&mut claim, one(event)).await;
        stored.expect("a journal does not interpret events");
    }
    let decode = async |record: Result<Record, JournalError>| serializer.decode(&id, &record?);
    store
        .journal()
        .replay(&id, ReplayRange::ALL)
        .then(decode)
        .collect()
        .await
}

fn assert_second_is_undecodable(decoded: &[Result<Counted, JournalError>], named: &str) {
    let [first, second, third] = decoded else {
        panic!(
            "three events were stored, {} came back: {decoded:?}",
            decoded.len()
        );
    };
    assert_eq!(first.as_ref().expect("readable").count, 1);
    assert_eq!(third.as_ref().expect("readable").count, 3);
    let error = second.as_ref().expect_err("this program cannot read it");
    assert_eq!(error.kind(), ErrorKind::Undecodable);
    assert_eq!(error.sequence_nr().map(|number| number.get()), Some(2));
    let text = error.to_string();
    assert!(
        text.contains("account|1") && text.contains(named),
        "the error must name what it is about: {text}"
    );
}

/// G9.
pub(crate) async fn an_unknown_manifest_is_an_error_at_its_number(store: &mut JournalUnderTest) -> Verdict {
    let decoded = decoded(store, |event| event.manifest = Manifest::from("renamed")).await;
    assert_second_is_undecodable(&decoded, "renamed");
    Ok(())
}

/// G9.
pub(crate) async fn a_newer_version_is_an_error_at_its_number(store: &mut JournalUnderTest) -> Verdict {
    let decoded = decoded(store, |event| event.schema_version = 3).await;
    assert_second_is_undecodable(&decoded, "counted");
    Ok(())
}

/// G9.
pub(crate) async fn an_unknown_codec_is_an_error_at_its_number(store: &mut JournalUnderTest) -> Verdict {
    let decoded = decoded(store, |event| event.codec = CodecId(65_000)).await;
    assert_second_is_undecodable(&decoded, "counted");
    Ok(())
}
