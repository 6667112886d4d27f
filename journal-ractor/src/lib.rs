//! Persistent [ractor] actors.

mod life;
mod message;
mod reference;
mod slot;
mod spawn;
mod supervisor;

pub use ractor;

pub use crate::{
    message::{Envelope, ThenReplyTo},
    reference::{AskError, PersistentRef, TellError},
    spawn::{Accepting, SpawnError, SpawnPersistent},
};
