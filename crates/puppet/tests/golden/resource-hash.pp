$files = { '/nowhere/a' => { content => 'a' }, '/nowhere/b' => { ensure => absent } }
create_resources(file, $files, { owner => 'root' })
#=> file[/nowhere/a] path=/nowhere/a state=exists content=a owner=root instead=true
#=> file[/nowhere/b] path=/nowhere/b state=absent
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> file[/nowhere/b] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/b]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
