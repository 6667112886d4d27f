//! What a restart of the process leaves: everything that was acknowledged.

use journal_core::{Bounds, Deletion, EncodedEvent, ErrorKind, Manifest, ReplayRange, Tag};

use crate::{
    journal::{Driven, JournalUnderTest, event, id, one, plain_deletion, singles, writes},
    runner::Verdict,
};

/// G2, G4: nothing acknowledged is lost.
pub(crate) async fn keeps_every_acknowledged_event(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    for round in 0..5 {
        let mut claim = store.journal().claimed(&id).await;
        assert_eq!(claim.highest().get(), round * 4, "acknowledged events are lost");
        for _ in 0..2 {
            let appended = store.journal().write(&mut claim, writes(&[&["x", "y"]])).await;
            appended.expect("stored");
        }
        drop(claim);
        store.restart().await?;
        let numbers = store.journal().numbers(&id, ReplayRange::ALL).await;
        assert!(
            numbers.into_iter().eq(1..=round * 4 + 4),
            "acknowledged events are lost"
        );
    }
    Ok(())
}

/// G2: also when many ids were written, and the last one just now.
pub(crate) async fn keeps_many_ids(store: &mut JournalUnderTest) -> Verdict {
    let ids: Vec<_> = (0..300).map(|number| id(&format!("account|{number}"))).collect();
    for id in &ids {
        store.journal().stored(id, &[id.as_str(), "2"]).await;
    }
    store.restart().await?;
    for id in &ids {
        assert_eq!(store.journal().texts(id).await, [id.as_str(), "2"]);
    }
    Ok(())
}

/// G2: bit for bit, with writer and epoch.
pub(crate) async fn keeps_records_as_they_were(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let tags = if store.capabilities().tags {
        vec![Tag::from("red")]
    } else {
        Vec::new()
    };
    let event = EncodedEvent {
        manifest: Manifest::from("other"),
        schema_version: 7,
        metadata: b"\0meta"[..].into(),
        tags,
        ..event("payload")
    };
    let mut claim = store.journal().five(&id).await;
    store
        .journal()
        .write(&mut claim, one(event))
        .await
        .expect("stored");
    let before = store.journal().records(&id, ReplayRange::ALL).await;
    drop(claim);
    store.restart().await?;
    assert_eq!(store.journal().records(&id, ReplayRange::ALL).await, before);
    Ok(())
}

/// G5: although no event is left to tell it.
pub(crate) async fn keeps_the_highest_after_deleting_everything(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    store.journal().deleted(&id, u64::MAX).await;
    let before = store.journal().bounds_of(&id).await;
    for _ in 0..2 {
        store.restart().await?;
        assert_eq!(store.journal().bounds_of(&id).await, before);
    }
    let mut claim = store.journal().claimed(&id).await;
    assert_eq!(claim.highest().get(), 5);
    let appended = store.journal().write(&mut claim, singles(&["a-6"])).await;
    assert_eq!(
        appended.expect("stored").first.get(),
        6,
        "a number was used twice"
    );
    assert_eq!(store.journal().texts(&id).await, ["a-6"]);
    Ok(())
}

/// G6, G7: a deleted event does not come back.
pub(crate) async fn keeps_deletions(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    store.journal().deleted(&id, 4).await;
    store.restart().await?;
    assert_eq!(store.journal().bounds_of(&id).await.deleted_to.get(), 4);
    assert_eq!(store.journal().texts(&id).await, ["a-5"]);
    Ok(())
}

/// The recorded fresh start, without which recovery would look for a snapshot that never was.
pub(crate) async fn keeps_the_fresh_start(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let incarnation = store.journal().five(&id).await.incarnation();
    let fresh = Deletion {
        fresh_start: true,
        ..plain_deletion(3, incarnation)
    };
    store.journal().delete_to(&id, fresh).await.expect("deleted");
    store.journal().deleted(&id, 4).await;
    store.restart().await?;
    let bounds = store.journal().bounds_of(&id).await;
    assert_eq!((bounds.fresh_start.get(), bounds.deleted_to.get()), (3, 4));
    Ok(())
}

/// G5: the life goes on.
pub(crate) async fn keeps_the_incarnation(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let incarnation = store.journal().five(&id).await.incarnation();
    store.restart().await?;
    let bounds = store.journal().bounds_of(&id).await;
    assert_eq!(bounds.incarnation, Some(incarnation));
    assert_eq!(store.journal().claimed(&id).await.incarnation(), incarnation);
    Ok(())
}

/// G5: what is forgotten stays forgotten.
pub(crate) async fn keeps_purges(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let former = store.journal().five(&id).await.incarnation();
    store.journal().purge(&id).await.expect("purged");
    store.restart().await?;
    assert_eq!(store.journal().bounds_of(&id).await, Bounds::default());
    assert!(store.journal().texts(&id).await.is_empty());
    let claim = store.journal().stored(&id, &["b-1"]).await;
    assert_ne!(claim.incarnation(), former);
    let error = store.journal().delete_to(&id, plain_deletion(1, former)).await;
    let error = error.expect_err("the id lives under another incarnation");
    assert_eq!(error.kind(), ErrorKind::WrongIncarnation, "{error}");
    Ok(())
}

/// G4: epochs go on where they were, or an old record would look newer than a new one.
pub(crate) async fn makes_later_claims_greater(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    let mut former = store.journal().five(&id).await.epoch();
    for _ in 0..3 {
        store.restart().await?;
        let epoch = store.journal().claimed(&id).await.epoch();
        assert!(epoch > former, "the epoch went from {former:?} to {epoch:?}");
        former = epoch;
    }
    Ok(())
}

/// A claim that wrote nothing leaves nothing.
pub(crate) async fn forgets_ids_only_claimed(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().claimed(&id).await;
    store.restart().await?;
    assert_eq!(store.journal().bounds_of(&id).await, Bounds::default());
    let claim = store.journal().stored(&id, &["a-1"]).await;
    assert_eq!(claim.highest().get(), 1);
    Ok(())
}

/// After a shutdown as after a crash.
pub(crate) async fn can_follow_a_shutdown(store: &mut JournalUnderTest) -> Verdict {
    let id = id("account|1");
    store.journal().five(&id).await;
    store.journal().shutdown().await.expect("it shuts down");
    store.restart().await?;
    assert_eq!(store.journal().texts(&id).await.len(), 5);
    let claim = store.journal().stored(&id, &["a-6"]).await;
    assert_eq!(claim.highest().get(), 6);
    Ok(())
}
