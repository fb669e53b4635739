@file { '/nowhere/v': ensure => file, tag => 'mine' }
File <| tag == 'mine' |> -> notify { 'after': }
notify { 'x': before => File['/nowhere/v'] }
#=> file[/nowhere/v] path=/nowhere/v state=exists instead=true
#=> msg[after] body=after priority=Notice
#=> msg[x] body=x priority=Notice
#=> file[/nowhere/v] -> msg[after]
#=> file[/nowhere/v] ~> noop[completed_Class[Main]]
#=> msg[after] ~> noop[completed_Class[Main]]
#=> msg[x] -> file[/nowhere/v]
#=> msg[x] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/v]
#=> noop[admissible_Class[Main]] ~> msg[after]
#=> noop[admissible_Class[Main]] ~> msg[x]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
