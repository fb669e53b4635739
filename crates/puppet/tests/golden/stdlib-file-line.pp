file_line { 'plain': path => '/nowhere/f', line => 'a = b' }
file_line { 'gone': path => '/nowhere/f', line => 'c', ensure => absent }
file_line { 'matched': path => '/nowhere/f', line => 'd = 2', match => '^d' }
#=> line[plain] file=/nowhere/f state=exists content=a = b
#=> line[gone] file=/nowhere/f state=absent content=c
#=> pippet[File_line[matched]] type=file_line title=matched params={"path":"/nowhere/f","line":"d = 2","match":"^d"} meta:poll=1800
#=> line[gone] ~> noop[completed_Class[Main]]
#=> line[plain] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> line[gone]
#=> noop[admissible_Class[Main]] ~> line[plain]
#=> noop[admissible_Class[Main]] ~> pippet[File_line[matched]]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> pippet[File_line[matched]] ~> noop[completed_Class[Main]]
#=> File_line[matched] is left to Puppet: `match` has no counterpart
