//! Any text is an id, and no two are the same.

use journal_core::PersistenceId;

use crate::{
    journal::{Driven, JournalUnderTest, id},
    runner::Verdict,
};

/// Texts that some stores, paths, keys and collations confuse.
pub(crate) fn odd_ids() -> Vec<PersistenceId> {
    let longest = "x".repeat(PersistenceId::MAX_BYTES);
    let almost_longest = format!("{}y", "x".repeat(PersistenceId::MAX_BYTES - 1));
    let longest_unicode = "\u{e4}".repeat(PersistenceId::MAX_BYTES / 2);
    let texts = [
        "a",
        "A",
        "aa",
        "a ",
        " a",
        "a\0",
        "a\0\0",
        "\0",
        "\0a",
        "a\n",
        "a\r\n",
        "a\t",
        " ",
        "  ",
        "a|b",
        "a|",
        "|b",
        "|",
        "a||b",
        "a/b",
        "a\\b",
        "a-b",
        "a_b",
        "a.b",
        "a:b",
        "a%b",
        "a%2Fb",
        "a*",
        "a?",
        ".",
        "..",
        "../a",
        "/a",
        "a/",
        "/",
        "CON",
        "nul",
        "~",
        "-a",
        "--",
        "#",
        "'",
        "\"",
        "a'; DROP TABLE a",
        "\u{e4}",
        "a\u{308}",
        "\u{c4}",
        "\u{df}",
        "ss",
        "\u{130}",
        "i\u{307}",
        "I",
        "i",
        "\u{131}",
        "\u{1f600}",
        "\u{10ffff}",
        "\u{ffff}",
        "\u{feff}a",
        "a\u{200b}",
        "\u{202e}a",
        "\u{7f}",
        "\u{80}",
        "0",
        "00",
        "1",
        "01",
        "1.0",
        "-1",
        "18446744073709551615",
        longest.as_str(),
        almost_longest.as_str(),
        longest_unicode.as_str(),
        "x",
        "xy",
    ];
    texts.into_iter().map(id).collect()
}

/// Each odd id has its own events.
pub(crate) async fn are_never_aliased(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    for (number, id) in odd_ids().iter().enumerate() {
        let claim = journal.stored(id, &[&number.to_string(), "second"]).await;
        assert_eq!(claim.highest().get(), 2, "{id} shares another id's numbers");
    }
    for (number, id) in odd_ids().iter().enumerate() {
        assert_eq!(
            journal.texts(id).await,
            [number.to_string(), "second".to_owned()],
            "{id}"
        );
    }
    Ok(())
}

/// Deleting and purging one leaves the others.
pub(crate) async fn are_deleted_and_purged_alone(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let odd = odd_ids();
    for id in &odd {
        journal.stored(id, &["1", "2"]).await;
    }
    for (number, id) in odd.iter().enumerate() {
        match number % 3 {
            0 => drop(journal.deleted(id, 1).await),
            1 => journal.purge(id).await.expect("purged"),
            _ => {}
        }
    }
    for (number, id) in odd.iter().enumerate() {
        let expected: &[&str] = match number % 3 {
            0 => &["2"],
            1 => &[],
            _ => &["1", "2"],
        };
        assert_eq!(journal.texts(id).await, expected, "{id}");
    }
    Ok(())
}

/// A claim ends those of its own id only.
pub(crate) async fn are_claimed_alone(store: &mut JournalUnderTest) -> Verdict {
    let journal = store.journal();
    let mut claims = Vec::new();
    for id in odd_ids() {
        claims.push(journal.claimed(&id).await);
    }
    for claim in &mut claims {
        let appended = journal.write(claim, crate::journal::singles(&["1"])).await;
        appended.unwrap_or_else(|error| panic!("a claim of another id ended this one: {error}"));
    }
    Ok(())
}

/// After a restart, too.
pub(crate) async fn survive_a_restart(store: &mut JournalUnderTest) -> Verdict {
    for id in odd_ids() {
        store.journal().stored(&id, &[id.as_str()]).await;
    }
    store.restart().await?;
    for id in odd_ids() {
        assert_eq!(store.journal().texts(&id).await, [id.as_str()], "{id}");
    }
    Ok(())
}
