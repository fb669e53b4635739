notify { 'a': message => 'text', loglevel => warning }
notify { 'b': withpath => true, loglevel => debug }
#=> msg[a] body=text priority=Warning
#=> msg[b] body=b priority=Debug
#=> msg[a] ~> noop[completed_Class[Main]]
#=> msg[b] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> msg[a]
#=> noop[admissible_Class[Main]] ~> msg[b]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
