user { 'a': ensure => present, expiry => '2030-01-01' }
user { 'b': ensure => present, password_max_age => 90 }
user { 'c': ensure => present, membership => inclusive, groups => 'x' }
#=> pippet[User[a]] type=user title=a params={"ensure":"present","expiry":"2030-01-01"} meta:poll=1800
#=> pippet[User[b]] type=user title=b params={"ensure":"present","password_max_age":90} meta:poll=1800
#=> user[c] state=exists groups=["x"]
#=> noop[admissible_Class[Main]] ~> pippet[User[a]]
#=> noop[admissible_Class[Main]] ~> pippet[User[b]]
#=> noop[admissible_Class[Main]] ~> user[c]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[User[a]] ~> noop[completed_Class[Main]]
#=> pippet[User[b]] ~> noop[completed_Class[Main]]
#=> user[c] ~> noop[completed_Class[Main]]
#=> User[a] is left to Puppet: `expiry` has no counterpart
#=> User[b] is left to Puppet: `password_max_age` has no counterpart
