file { '/nowhere/conf.d':
  ensure  => directory,
  recurse => true,
  purge   => true,
  force   => true,
}
file { '/nowhere/conf.d/10-a.conf': content => 'a' }
#=> file[/nowhere/conf.d] path=/nowhere/conf.d/ state=exists recurse=true force=true purge=true instead=true
#=> file[/nowhere/conf.d/10-a.conf] path=/nowhere/conf.d/10-a.conf state=exists content=a instead=true
#=> file[/nowhere/conf.d/10-a.conf] ~> noop[completed_Class[Main]]
#=> file[/nowhere/conf.d] -> file[/nowhere/conf.d/10-a.conf]
#=> file[/nowhere/conf.d] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/conf.d/10-a.conf]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/conf.d]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
