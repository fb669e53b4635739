file_line { 'plain': path => '/nowhere/f', line => 'a = b' }
file_line { 'gone': path => '/nowhere/f', line => 'c', ensure => absent }
file_line { 'matched': path => '/nowhere/f', line => 'd = 2', match => '^d' }
#=> line[plain] file=/nowhere/f state=exists content=a = b
#=> line[gone] file=/nowhere/f state=absent content=c
#=> line[matched] file=/nowhere/f state=exists content=d = 2 match=^d
#=> line[gone] ~> noop[completed_Class[Main]]
#=> line[matched] ~> noop[completed_Class[Main]]
#=> line[plain] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> line[gone]
#=> noop[admissible_Class[Main]] ~> line[matched]
#=> noop[admissible_Class[Main]] ~> line[plain]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
