file { '/nowhere/a': content => 'x', seluser => 'system_u', selrole => 'object_r', seltype => 'etc_t', selrange => 's0' }
file { '/nowhere/b': content => 'x', seltype => 'etc_t' }
#=> file[/nowhere/a] path=/nowhere/a state=exists content=x selinux=system_u:object_r:etc_t:s0 instead=true
#=> pippet[File[/nowhere/b]] type=file title=/nowhere/b params={"content":"x","seltype":"etc_t"} paths=["/nowhere/b"] watchfiles=["/nowhere/b"] interval=1800
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> pippet[File[/nowhere/b]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File[/nowhere/b]] ~> noop[completed_Class[Main]]
#=> File[/nowhere/b] is left to Puppet: `seltype` is only a part of the context; the rest is as the host finds it
