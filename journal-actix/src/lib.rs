#![doc = include_str!("../docs.md")]

mod actor;
mod durable;
mod life;
mod message;
mod off_thread;
mod reference;
mod shared;
mod spawn;
mod told;

pub use actix;
pub use journal_core::{AskError, TellError};

pub use crate::{
    actor::{PersistentActor, PersistentHooks},
    durable::{Durable, OwnModel},
    message::{Ask, DurableResponse, PersistentHandler},
    reference::PersistentAddr,
    spawn::SpawnPersistent,
};

#[doc(hidden)]
pub mod derived {
    //! What `#[derive(PersistentActor)]` expands to.
    pub use journal_core::{Backoff, FromFailure, Options, RecoveryError};

    pub use crate::{
        life::{restarting, started, stopped, stopping},
        message::Internal,
    };
}
