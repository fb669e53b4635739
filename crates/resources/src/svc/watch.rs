use mgmt_resource::Watch;

pub(super) fn unit(_: bool, _: String) -> Watch {
    Watch::Interval(std::time::Duration::from_secs(3600))
}
