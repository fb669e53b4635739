//! `net`: network interfaces.
//!
//! [`Net`] is the declaration. `cidr` reads addresses, `kernel` looks at an interface and changes it, `networkd` keeps the file
//! from which it is set up at the next boot.
//!
//! Invariants
//! - What is not declared is not touched, and what is found never becomes part of the declaration.
//! - Nothing is asked for repeatedly: the kernel tells of each change of the interface, its addresses and its routes, and only
//!   the resources for this interface hear of it.
//!
//! Deliberately absent: making interfaces, and everything about them but whether they are up, their addresses and their default
//! route.

mod cidr;
mod kernel;
mod networkd;

use std::collections::BTreeSet;
use std::fmt::Write;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use mgmt_resource::{
    Cancel, Checked, Context, Effect, Error, Host, Identity, Invalid, Kind, Needed, Nothing, Resource,
    Result, ResultExt, Want, Watch, WatchStream,
};
use mgmt_value::Str;
use mgmt_watch::{KernelEvents, KernelTopic};

use self::cidr::{Cidr, is_usable};
use self::kernel::{Address, Interface, Route};
use crate::support::account::lookup_now;

/// The longest name that the kernel takes.
const LONGEST: usize = 15;
const UNTOLD: &str = "cannot hear of changes of network interfaces";

/// Keeps a network interface up or down, with the addresses and the default route that it is to have.
///
/// The name of the resource is the name of the interface, which something else makes: the kernel, or an `exec` that comes
/// before. What is declared holds now, and if `state` is declared, it holds after every boot too, by a file for
/// `systemd-networkd`, `/etc/systemd/network/mgmt-NAME.network`, which is there as long as the interface is to be up. If that
/// service runs, it is told.
///
/// When somebody changes the interface, an address of it, a route through it, or the file, it is put right at once. If it is
/// not there, that is an error, and it is set up when it comes.
///
/// With `meta: {reverse: true}` the interface becomes what it was when the resource is no longer declared: up or down, with the
/// addresses and the default route that it had. The file goes if the interface was down.
///
/// ```mcl
/// net "eth1" {
///     state => "up",
///     addrs => ["192.0.2.10/24", "2001:db8::10/64"],
///     gateway => "192.0.2.1",
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Resource)]
#[resource(kind = "net", edges, receive, reverse)]
pub struct Net {
    /// `up` or `down`. If it is left out, it stays as it is, and there is no file.
    pub state: Str,
    /// The addresses, each with the length of its network's prefix: `192.0.2.1/24`, `2001:db8::1/64`. All others are removed,
    /// but for those that the kernel gives by itself: link-local ones of IPv6, and those of the loopback interface. If it is
    /// left out, they stay as they are; an empty list means that there are none.
    pub addrs: Option<Vec<Str>>,
    /// The address of the router that leads to everywhere else, of IPv4 or of IPv6. There is one default route through the
    /// interface then. If it is left out, routes stay as they are.
    pub gateway: Str,
    /// Whether packets are forwarded. This goes to the file alone; the kind `sysctl` sets it now.
    pub ip_forward: Option<bool>,
}

/// What a `net` remembers.
#[derive(Default)]
pub struct Remembered {
    /// The file has changed, and `systemd-networkd` has not read it yet.
    is_untold: bool,
}

/// What is declared, as it is meant.
#[derive(Clone, Debug, PartialEq)]
struct Wanted {
    up: Option<bool>,
    addresses: Option<BTreeSet<Cidr>>,
    gateway: Option<IpAddr>,
}

impl Kind for Net {
    type State = Remembered;
    type Sends = Nothing;

    fn validate(&self, name: &Str) -> Result<(), Invalid> {
        check_name(name)?;
        let wanted = self.wanted()?;
        let is_own =
            |gateway: &IpAddr| wanted.addresses.iter().flatten().any(|cidr| cidr.address == *gateway);
        if wanted.gateway.as_ref().is_some_and(is_own) {
            return Err(Invalid::field("gateway", "is one of the interface's own addresses")
                .with_hint("it is the address of the router, which is another host"));
        }
        if self.ip_forward.is_some() && wanted.up != Some(true) {
            return Err(Invalid::field(
                "ip_forward",
                "goes to the file, which is there only if `state` is `up`",
            ));
        }
        if (wanted.up, &wanted.addresses, wanted.gateway) == (None, &None, None) {
            return Err(Invalid::new(
                "neither `state`, `addrs` nor `gateway` is set, so there is nothing to do",
            ));
        }
        Ok(())
    }

    fn watches(&self, name: &Str) -> Vec<Watch> {
        let topic = KernelTopic::Interface(name.to_text().into_owned());
        let start = move |_: &Host| {
            let events = KernelEvents::follow(&topic).context(UNTOLD)?;
            Ok(Box::new(Events(events)) as Box<dyn WatchStream>)
        };
        let kernel =
            Watch::Stream { key: Str::from(format!("net {}", name.display())), start: Arc::new(start) };
        let file = self.file(name).map(|path| Watch::Path { path, recursive: false });
        [kernel].into_iter().chain(file).collect()
    }

    async fn check_apply(&self, remembered: &mut Remembered, cx: &mut Context<'_>) -> Result<Checked> {
        let wanted = self.wanted().map_err(Error::new)?;
        let name = &cx.id.name;
        let content = (wanted.up == Some(true)).then(|| self.content(name, &wanted));
        let mut checked = Checked::Right;
        if wanted.up.is_some() {
            checked = lookup_now(|| networkd::keep(name, content.as_deref(), cx))?;
            if checked == Checked::Changed && cx.apply {
                remembered.is_untold = true;
                cx.info(if content.is_some() { "stored for the next boot" } else { "removed the file" });
            }
        }
        if remembered.is_untold && cx.apply {
            networkd::tell(cx).await?;
            remembered.is_untold = false;
        }
        Ok(checked.and(lookup_now(|| wanted.make(name, cx))?))
    }

    fn provides(&self, name: &Str) -> Vec<Identity> {
        self.file(name).map(Identity::Path).into_iter().collect()
    }

    fn wants(&self, name: &Str) -> Vec<Want> {
        self.file(name).map(Want::ParentOf).into_iter().collect()
    }

    /// As far as it is declared, what the interface is now. That there was no default route cannot be declared.
    fn reversed(&self, name: &Str) -> Result<Option<Net>> {
        let wanted = self.wanted().map_err(Error::new)?;
        let Some((mut interface, is_up)) = Interface::find(name)? else { return Ok(None) };
        if wanted.up == Some(is_up) && !is_up {
            return Ok(None);
        }
        if wanted.up == Some(true) && !is_up {
            return Ok(Some(Net { state: "down".into(), ..Net::default() }));
        }
        let mut before = Net::default();
        if wanted.up.is_some() {
            before.state = "up".into();
        }
        // What goes down loses addresses and routes by that, whether they are declared or not.
        let is_lost = wanted.up == Some(false);
        if is_lost || wanted.addresses.is_some() {
            let found = interface.addresses()?.into_iter().filter(|address| !address.cidr.is_automatic());
            before.addrs = Some(found.map(|address| Str::from(address.cidr.to_string())).collect());
        }
        if is_lost || wanted.gateway.is_some() {
            let like = wanted.gateway.unwrap_or(IpAddr::from([0; 4]));
            let gateways =
                default_routes(&mut interface, like)?.into_iter().filter_map(|route| route.gateway);
            before.gateway =
                gateways.map(|gateway| Str::from(gateway.to_string())).next().unwrap_or_default();
        }
        let is_anything = Kind::validate(&before, name).is_ok();
        Ok(is_anything.then_some(before))
    }

    fn equivalent(&self, _: &Str, other: &Net) -> bool {
        self == other || (self.ip_forward == other.ip_forward && self.wanted() == other.wanted())
    }
}

impl Net {
    fn wanted(&self) -> Result<Wanted, Invalid> {
        let up = match self.state.as_bytes() {
            b"" => None,
            b"up" => Some(true),
            b"down" => Some(false),
            _ => {
                return Err(Invalid::field(
                    "state",
                    format!("expected `up` or `down`, found {:?}", self.state),
                ));
            }
        };
        let read = |text: &Str| Cidr::read(text).map_err(|why| Invalid::field("addrs", why));
        let addresses = self.addrs.as_ref().map(|all| all.iter().map(read).collect()).transpose()?;
        let gateway = match self.gateway.is_empty() {
            true => None,
            false => {
                let parsed = self.gateway.to_text().parse::<IpAddr>().ok();
                let usable = parsed.filter(|gateway| is_usable(*gateway) && !gateway.is_loopback());
                let wrong = || format!("{:?} is not the address of a router like `192.0.2.1`", self.gateway);
                Some(usable.ok_or_else(|| Invalid::field("gateway", wrong()))?)
            }
        };
        Ok(Wanted { up, addresses, gateway })
    }

    /// The file, if it is managed.
    fn file(&self, name: &Str) -> Option<Str> {
        (!self.state.is_empty()).then(|| networkd::path(name))
    }

    /// What is in the file.
    fn content(&self, name: &Str, wanted: &Wanted) -> String {
        let mut content = format!("[Match]\nName={}\n\n[Network]\n", name.display());
        // Writing to a string does not fail.
        for address in wanted.addresses.iter().flatten() {
            let _ = writeln!(content, "Address={address}");
        }
        if let Some(gateway) = wanted.gateway {
            let _ = writeln!(content, "Gateway={gateway}");
        }
        if let Some(forward) = self.ip_forward {
            let _ = writeln!(content, "IPForward={forward}");
        }
        content
    }
}

impl Wanted {
    /// Only looking: what becomes of an interface that is not there yet.
    fn describe_all(&self, name: &Str, cx: &Context<'_>) {
        if self.up == Some(true) {
            cx.describe(Effect::change(name.display()).aspect("state").after("up").presumed());
        }
        for address in self.addresses.iter().flatten() {
            cx.describe(Effect::create(name.display()).aspect("address").after(address).presumed());
        }
        if let Some(gateway) = self.gateway {
            cx.describe(Effect::change(name.display()).aspect("gateway").after(gateway).presumed());
        }
    }

    /// Looks at the interface and puts it right. Blocks, but for a moment only.
    fn make(&self, name: &Str, cx: &Context<'_>) -> Result<Checked> {
        let Some((mut interface, is_up)) = Interface::find(name)? else {
            return match self.up {
                Some(false) => Ok(Checked::Right),
                // Another resource may be about to make it, and only a run that changes things can tell.
                _ if cx.may_come(Needed::Other) => {
                    self.describe_all(name, cx);
                    Ok(Checked::Changed)
                }
                _ => Err(Error::new(format_args!("there is no interface {}", name.display()))
                    .with_hint("`ip link` lists them; what makes it has to come before")),
            };
        };
        let mut checked = Checked::Right;
        if self.up.is_some_and(|up| up != is_up) {
            checked = Checked::Changed;
            let word = |up: bool| if up { "up" } else { "down" };
            let effect = Effect::change(name.display()).aspect("state");
            cx.describe(effect.before(word(is_up)).after(word(!is_up)).presumed());
            if cx.apply {
                interface.set_up(!is_up)?;
                cx.info(if is_up { "put down" } else { "put up" });
            }
        }
        if self.up == Some(false) {
            return Ok(checked);
        }
        let will_be_up = self.up.unwrap_or(is_up);
        if let Some(wanted) = &self.addresses {
            checked = checked.and(make_addresses(&mut interface, wanted, will_be_up, cx)?);
        }
        if let Some(gateway) = self.gateway {
            checked = checked.and(make_gateway(&mut interface, gateway, cx)?);
        }
        Ok(checked)
    }
}

fn make_addresses(
    interface: &mut Interface,
    wanted: &BTreeSet<Cidr>,
    is_up: bool,
    cx: &Context<'_>,
) -> Result<Checked> {
    let mut checked = Checked::Right;
    for surplus in interface.addresses()?.iter().filter(|found| is_surplus(found, wanted)) {
        checked = Checked::Changed;
        let name = cx.id.name.display();
        cx.describe(Effect::remove(name).aspect("address").before(surplus.cidr).presumed());
        if cx.apply {
            interface.remove_address(surplus)?;
            cx.info(format_args!("removed the address {}", surplus.cidr));
        }
    }
    // Looked at again, as an address takes others of its network along.
    let present: BTreeSet<Cidr> = interface.addresses()?.iter().map(|address| address.cidr).collect();
    for missing in wanted.difference(&present) {
        checked = Checked::Changed;
        cx.describe(Effect::create(cx.id.name.display()).aspect("address").after(missing).presumed());
        if cx.apply {
            interface.add_address(*missing)?;
            cx.info(format_args!("added the address {missing}"));
        }
    }
    if !is_up || (checked == Checked::Changed && !cx.apply) {
        return Ok(checked);
    }
    for like in families(wanted) {
        let routes = interface.routes(like)?;
        let mut reached: BTreeSet<(IpAddr, u8)> =
            routes.iter().map(|route| (route.network, route.prefix)).collect();
        for cidr in
            wanted.iter().filter(|cidr| cidr.address.is_ipv4() == like.is_ipv4() && cidr.has_network())
        {
            // One way to a network is enough for all addresses in it.
            if !reached.insert((cidr.network(), cidr.prefix)) {
                continue;
            }
            checked = Checked::Changed;
            // Where an address was added, the way to its network comes with it.
            cx.describe(Effect::create(cx.id.name.display()).aspect("route").after(cidr).presumed());
            if cx.apply {
                interface.add_network_route(*cidr)?;
                cx.info(format_args!("added the way to the network of {cidr}"));
            }
        }
    }
    Ok(checked)
}

fn is_surplus(found: &Address, wanted: &BTreeSet<Cidr>) -> bool {
    !wanted.contains(&found.cidr) && !found.cidr.is_automatic()
}

/// An address of each family that is wanted.
fn families(wanted: &BTreeSet<Cidr>) -> impl Iterator<Item = IpAddr> {
    let one = |is_4: bool| wanted.iter().map(|cidr| cidr.address).find(|address| address.is_ipv4() == is_4);
    [one(true), one(false)].into_iter().flatten()
}

fn make_gateway(interface: &mut Interface, gateway: IpAddr, cx: &Context<'_>) -> Result<Checked> {
    let found = default_routes(interface, gateway)?;
    let kept = found.iter().position(|route| route.gateway == Some(gateway));
    if kept.is_some() && found.len() == 1 {
        return Ok(Checked::Right);
    }
    let effect = Effect::change(cx.id.name.display()).aspect("gateway").after(gateway).presumed();
    cx.describe(match found.iter().find_map(|route| route.gateway.filter(|present| *present != gateway)) {
        Some(present) => effect.before(present),
        None => effect,
    });
    if !cx.apply {
        return Ok(Checked::Changed);
    }
    // First the new one, so that there is always a way out.
    if kept.is_none() {
        interface.add_default_route(gateway)?;
        cx.info(format_args!("the gateway is {gateway} now"));
    }
    for (position, route) in found.iter().enumerate() {
        if Some(position) != kept {
            interface.remove_route(route)?;
            cx.info("removed another default route");
        }
    }
    match default_routes(interface, gateway)?.as_slice() {
        [route] if route.gateway == Some(gateway) => Ok(Checked::Changed),
        _ => Err(Error::new("there are still other default routes through the interface")
            .with_hint("`ip route show default` lists them; one with several ways cannot be taken apart")),
    }
}

/// The default routes of the gateway's family.
fn default_routes(interface: &mut Interface, like: IpAddr) -> Result<Vec<Route>> {
    Ok(interface.routes(like)?.into_iter().filter(|route| route.prefix == 0).collect())
}

/// The kernel takes more; but in a file for `systemd-networkd` some of it would mean several interfaces.
fn check_name(name: &Str) -> Result<(), Invalid> {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.@+".contains(byte);
    let is_good = (1..=LONGEST).contains(&name.len())
        && name.iter().all(is_plain)
        && !matches!(name.as_bytes(), b"." | b".." | b"all" | b"default");
    match is_good {
        true => Ok(()),
        false => Err(Invalid::new(format!("{name:?} is not the name of a network interface"))
            .with_hint("`ip link` lists them; a name has up to 15 letters, digits and `_-.@+`")),
    }
}

/// What the kernel tells about one interface.
struct Events(KernelEvents);

impl WatchStream for Events {
    fn next<'a>(&'a mut self, cancel: &'a Cancel) -> Pin<Box<dyn Future<Output = Result<()>> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                event = self.0.next() => event.context(UNTOLD),
                () = cancel.cancelled() => Err(Error::Cancelled),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn net(state: &str, addrs: &[&str]) -> Net {
        let addrs = addrs.iter().map(|text| Str::from(*text)).collect();
        Net { state: state.into(), addrs: Some(addrs), ..Net::default() }
    }

    #[test]
    fn the_same_addresses_in_another_order_or_spelling_are_the_same_declaration() {
        let name = Str::from("eth0");
        let one = net("up", &["192.0.2.1/24", "2001:db8::1/64"]);
        assert!(one.equivalent(&name, &net("up", &["2001:DB8:0::1/64", "192.0.2.1/24", "192.0.2.1/24"])));
        assert!(!one.equivalent(&name, &net("up", &["192.0.2.1/24"])));
        assert!(!net("up", &[]).equivalent(&name, &Net { state: "up".into(), ..Net::default() }));
        let forwarding = Net { ip_forward: Some(true), ..one.clone() };
        assert!(!one.equivalent(&name, &forwarding));
    }

    #[test]
    fn the_file_says_what_is_declared() {
        let wanted = Net {
            gateway: "192.0.2.254".into(),
            ip_forward: Some(true),
            ..net("up", &["2001:db8::1/64", "192.0.2.1/24"])
        };
        assert_eq!(
            wanted.content(&"eth0".into(), &wanted.wanted().unwrap()),
            "[Match]\nName=eth0\n\n[Network]\nAddress=192.0.2.1/24\nAddress=2001:db8::1/64\nGateway=192.0.2.254\n\
             IPForward=true\n"
        );
    }
}
