file { '/nowhere/a': ensure => file, tag => 'x' }
File <| tag == 'x' |> { mode => '0600' }
#=> file[/nowhere/a] path=/nowhere/a state=exists mode=0600 instead=true
#=> file[/nowhere/a] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/a]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
