//! Access control of an etcd that asks its users who they are: one operator, who may do everything, and a user for each host,
//! who may write what belongs to that host and what all hosts share, and nothing else.
//!
//! ```text
//!   a host reads everything, and writes     /host/HOST/  /string/  /schedule/  /leader/
//!   and so it cannot write                  what belongs to other hosts, deploys and their files
//! ```

use mgmt_value::Str;

use super::Etcd;
use super::failure::{Answer, Failure};
use super::servers::Call;
use super::wire;
use mgmt_store::keys;
use mgmt_store::{Span, StoreError};

const ADD_USER: Call = Call::change("/etcdserverpb.Auth/UserAdd");
const CHANGE_PASSWORD: Call = Call::change("/etcdserverpb.Auth/UserChangePassword");
const GRANT_ROLE: Call = Call::change("/etcdserverpb.Auth/UserGrantRole");
const ADD_ROLE: Call = Call::change("/etcdserverpb.Auth/RoleAdd");
const DELETE_ROLE: Call = Call::change("/etcdserverpb.Auth/RoleDelete");
const GRANT_RANGE: Call = Call::change("/etcdserverpb.Auth/RoleGrantPermission");
const ENABLE: Call = Call::change("/etcdserverpb.Auth/AuthEnable");

/// What may be done with a range of keys.
const READ: i32 = 0;
const READ_AND_WRITE: i32 = 2;

impl Etcd {
    /// The user, and the role, that etcd lets do everything.
    pub const OPERATOR: &str = "root";

    /// The user that a host is.
    pub fn user_of(host: &Str) -> String {
        format!("mgmt-host-{}", keys::part(host))
    }

    /// Whether what was done so far was done without being asked who we are, as far as that is known.
    pub fn is_let_in_unasked(&self) -> bool {
        self.core.servers.is_unproven()
    }

    /// Asks everybody who they are from now on, and makes the operator with this password. One that is there already gets
    /// the password.
    ///
    /// # Errors
    ///
    /// It was done before, and we are not the operator; or there is no answer.
    pub async fn close(&self, password: &str) -> Result<(), StoreError> {
        self.user(Self::OPERATOR, password).await?;
        self.role(Self::OPERATOR).await?;
        self.give(Self::OPERATOR, Self::OPERATOR).await?;
        Ok(self.change(ENABLE, wire::Ask {}).await?)
    }

    /// Lets a host in: makes [its user](Etcd::user_of) with this password. One that is there already gets the password, and
    /// exactly these rights.
    ///
    /// # Errors
    ///
    /// We are not the operator, or there is no answer.
    pub async fn admit(&self, host: &Str, password: &str) -> Result<(), StoreError> {
        let name = Self::user_of(host);
        // Rights of earlier times go with the role that had them.
        match self.change(DELETE_ROLE, wire::RoleName { name: name.clone() }).await {
            Err(Refusal { text, .. }) if text.ends_with("role name not found") => {}
            other => other?,
        }
        self.role(&name).await?;
        self.grant(&name, READ, "/").await?;
        for below in [&*keys::host(host), keys::STRINGS, keys::SCHEDULES, keys::LEADERS] {
            self.grant(&name, READ_AND_WRITE, below).await?;
        }
        self.user(&name, password).await?;
        self.give(&name, &name).await
    }

    /// Makes a user, or gives one that is there another password.
    async fn user(&self, name: &str, password: &str) -> Result<(), StoreError> {
        let user = wire::Authenticate { name: name.to_owned(), password: password.to_owned() };
        match self.change(ADD_USER, user.clone()).await {
            Err(Refusal { text, .. }) if text.ends_with("user name already exists") => {
                Ok(self.change(CHANGE_PASSWORD, user).await?)
            }
            other => Ok(other?),
        }
    }

    async fn role(&self, name: &str) -> Result<(), StoreError> {
        match self.change(ADD_ROLE, wire::RoleName { name: name.to_owned() }).await {
            Err(Refusal { text, .. }) if text.ends_with("role name already exists") => Ok(()),
            other => Ok(other?),
        }
    }

    async fn give(&self, user: &str, role: &str) -> Result<(), StoreError> {
        let question = wire::GrantRole { user: user.to_owned(), role: role.to_owned() };
        Ok(self.change(GRANT_ROLE, question).await?)
    }

    async fn grant(&self, role: &str, what: i32, below: &str) -> Result<(), StoreError> {
        let (key, end) = self.core.namespace.range(&Span::Prefix(below.to_owned()))?;
        let permission = Some(wire::Permission { what, key, end });
        Ok(self.change(GRANT_RANGE, wire::GrantRange { role: role.to_owned(), permission }).await?)
    }

    async fn change<Q: prost::Message + Clone + 'static>(
        &self,
        call: Call,
        question: Q,
    ) -> Result<(), Refusal> {
        let done: Result<wire::Done, Failure> = self.core.servers.call(call, question).await;
        done.map(|_| ()).map_err(|failure| {
            let text = match &failure {
                Failure::Answer(Answer { text, .. }) => text.clone(),
                _ => String::new(),
            };
            Refusal { text, error: failure.of_change() }
        })
    }
}

/// What a server said no with, and what that means.
struct Refusal {
    text: String,
    error: StoreError,
}

impl From<Refusal> for StoreError {
    fn from(refusal: Refusal) -> StoreError {
        refusal.error
    }
}
