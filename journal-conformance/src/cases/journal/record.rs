//! What comes back is what went in.

use std::sync::Arc;

use bytes::Bytes;
use journal_core::{
    AtomicWrite, CodecId, EncodedEvent, Manifest, Record, ReplayRange, Tag, Timestamp, WriterId,
};

use crate::{
    journal::{Driven, JournalUnderTest, event, id, one, singles, writes},
    runner::{NotApplicable, Verdict},
};

async fn round_trip(store: &JournalUnderTest, event: EncodedEvent) -> Record {
    let id = id("account|1");
    let mut claim = store.journal().claimed(&id).await;
    let appended = store
        .journal()
        .write(&mut claim, one(event))
        .await
        .expect("stored");
    let records = store
        .journal()
        .records(&id, ReplayRange::from(appended.first))
        .await;
    records.into_iter().next().expect("the event just stored")
}

/// JO2, JO3: payload, codec, manifest, version, timestamp and metadata, bit for bit.
pub(crate) async fn returns_every_field_as_written(store: &mut JournalUnderTest) -> Verdict {
    let written = EncodedEvent {
        payload: Bytes::from_static(b"\x00\xffpayload\n"),
        codec: CodecId(40_000),
        manifest: Manifest::from("r\u{e9}servation|\0made"),
        schema_version: u32::MAX,
        timestamp: Timestamp(1_700_000_000_123),
        tags: Vec::new(),
        metadata: Bytes::from_static(b"\xfe\x00trace-id"),
    };
    let record = round_trip(store, written.clone()).await;
    assert_eq!(record.event, written);
    Ok(())
}

/// Tags, in their order.
pub(crate) async fn returns_the_tags(store: &mut JournalUnderTest) -> Verdict {
    if !store.capabilities().tags {
        return NotApplicable::because("the journal declares no tags");
    }
    let written = EncodedEvent {
        tags: ["red", "blue, green", "gr\u{fc}n", "\0"].map(Tag::from).into(),
        ..event("tagged")
    };
    assert_eq!(round_trip(store, written.clone()).await.event, written);
    Ok(())
}

/// The events of one atomic write each keep their own fields.
pub(crate) async fn keeps_the_fields_of_each_event_of_a_write(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let written: Vec<EncodedEvent> = (0..20_u8)
        .map(|number| EncodedEvent {
            payload: Bytes::from(vec![number; usize::from(number)]),
            codec: CodecId(u16::from(number)),
            manifest: Manifest::from(format!("event-{number}")),
            schema_version: u32::from(number),
            timestamp: Timestamp(u64::from(number)),
            tags: Vec::new(),
            metadata: Bytes::from(vec![number; usize::from(20 - number)]),
        })
        .collect();
    let mut claim = store.journal().claimed(&id).await;
    let write = Arc::from([AtomicWrite::from(written.clone())]);
    store.journal().write(&mut claim, write).await.expect("stored");
    let read = store.journal().records(&id, ReplayRange::ALL).await;
    let read: Vec<_> = read.into_iter().map(|record| record.event).collect();
    assert_eq!(read, written);
    Ok(())
}

/// No field must have something in it.
pub(crate) async fn accepts_empty_fields(store: &mut JournalUnderTest) -> Verdict {
    let written = EncodedEvent {
        payload: Bytes::new(),
        codec: CodecId(0),
        manifest: Manifest::default(),
        schema_version: 0,
        timestamp: Timestamp(0),
        tags: Vec::new(),
        metadata: Bytes::new(),
    };
    assert_eq!(round_trip(store, written.clone()).await.event, written);
    Ok(())
}

/// Every byte, after every other.
pub(crate) async fn does_not_interpret_a_payload(store: &mut JournalUnderTest) -> Verdict {
    let payload: Vec<u8> = (0..=u8::MAX)
        .flat_map(|first| (0..=u8::MAX).flat_map(move |second| [first, second]))
        .collect();
    let written = event(payload);
    let read = round_trip(store, written.clone()).await.event;
    assert!(read == written, "a payload came back changed");
    Ok(())
}

/// A megabyte, or three quarters of the largest event where that is less, among small ones.
pub(crate) async fn returns_a_large_payload(store: &mut JournalUnderTest) -> Verdict {
    let limits = store.capabilities();
    let largest = limits.largest_event.min(limits.largest_append);
    let size = (largest - largest / 4).min(1 << 20);
    let payload: Vec<u8> = (0_u32..).flat_map(u32::to_le_bytes).take(size).collect();
    let written = event(payload);
    let id = id("account|2");
    let mut claim = store.journal().five(&id).await;
    for writes in [one(written.clone()), singles(&["a-7"])] {
        store
            .journal()
            .write(&mut claim, writes)
            .await
            .expect("within the limits");
    }
    let records = store.journal().records(&id, ReplayRange::ALL).await;
    assert_eq!(records.len(), 7);
    let large = records.into_iter().nth(5).expect("seven records");
    assert_eq!(large.sequence_nr.get(), 6);
    assert!(large.event == written, "a large payload came back changed");
    Ok(())
}

/// Who wrote, under which claim.
pub(crate) async fn names_writer_and_epoch(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let journal = store.journal();
    let mut expected = Vec::new();
    for _ in 0..3 {
        let writer = WriterId::random();
        let mut claim = journal.claim(&id, writer).await.expect("claimed");
        assert_eq!((claim.writer(), claim.id()), (writer, &id));
        let appended = journal.write(&mut claim, writes(&[&["x"], &["y", "z"]])).await;
        appended.expect("stored");
        expected.extend([(writer, claim.epoch()); 3]);
    }
    let read = journal.records(&id, ReplayRange::ALL).await;
    let read: Vec<_> = read.iter().map(|record| (record.writer, record.epoch)).collect();
    assert_eq!(read, expected);
    Ok(())
}

/// Where a backend orders all writes, later ones come later, and the events of a write share their place.
pub(crate) async fn orders_commits_across_ids(store: &mut JournalUnderTest) -> Verdict {
    let (a, b) = (id("account|a"), id("account|b"));
    let journal = store.journal();
    let (mut claim_a, mut claim_b) = (journal.claimed(&a).await, journal.claimed(&b).await);
    for _ in 0..3 {
        for (claim, texts) in [(&mut claim_a, ["1", "2"]), (&mut claim_b, ["3", "4"])] {
            journal.write(claim, writes(&[&texts])).await.expect("stored");
        }
    }
    let of_a = journal.records(&a, ReplayRange::ALL).await;
    let of_b = journal.records(&b, ReplayRange::ALL).await;
    let in_order_of_writing = of_a.chunks(2).zip(of_b.chunks(2)).flat_map(|(a, b)| [a, b]);
    let places: Option<Vec<Vec<u64>>> = in_order_of_writing
        .map(|write| write.iter().map(|record| record.commit_order).collect())
        .collect();
    let Some(places) = places else {
        return NotApplicable::because("the journal has no order of all writes");
    };
    for place in &places {
        assert_eq!(place.first(), place.last(), "one write, two places: {places:?}");
    }
    assert!(
        places.is_sorted_by(|earlier, later| earlier.first() < later.first()),
        "a later write has no later place: {places:?}"
    );
    Ok(())
}

/// The timestamp is the application's, not an order.
pub(crate) async fn keeps_its_number_when_the_clock_goes_back(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut claim = store.journal().claimed(&id).await;
    let times = [500, 100, 300, 0];
    for time in times {
        let event = EncodedEvent {
            timestamp: Timestamp(time),
            ..event("tick")
        };
        store
            .journal()
            .write(&mut claim, one(event))
            .await
            .expect("stored");
    }
    let records = store.journal().records(&id, ReplayRange::ALL).await;
    let read: Vec<_> = records.iter().map(|record| record.event.timestamp.0).collect();
    assert_eq!(read, times);
    Ok(())
}
