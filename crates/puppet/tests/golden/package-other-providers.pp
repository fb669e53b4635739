package { 'a': provider => gem }
package { 'b': install_options => ['--no-install-recommends'] }
package { 'c': name => 'other', provider => apt }
#=> pippet[Package[a]] type=package title=a params={"provider":"gem"} meta:poll=1800
#=> pippet[Package[b]] type=package title=b params={"install_options":["--no-install-recommends"]} meta:poll=1800
#=> pkg[other]
#=> noop[admissible_Class[Main]] ~> pippet[Package[a]]
#=> noop[admissible_Class[Main]] ~> pippet[Package[b]]
#=> noop[admissible_Class[Main]] ~> pkg[other]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[Package[a]] ~> noop[completed_Class[Main]]
#=> pippet[Package[b]] ~> noop[completed_Class[Main]]
#=> pkg[other] ~> noop[completed_Class[Main]]
#=> Package[a] is left to Puppet: `provider` only apt or dnf or yum or zypper is the same here
#=> Package[b] is left to Puppet: `install_options` has no counterpart
