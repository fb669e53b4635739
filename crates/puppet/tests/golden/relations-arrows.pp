notify { 'a': } -> notify { 'b': } ~> notify { 'c': }
Notify['d'] <- Notify['c']
notify { 'd': }
#=> msg[a] body=a priority=Notice
#=> msg[b] body=b priority=Notice
#=> msg[c] body=c priority=Notice
#=> msg[d] body=d priority=Notice
#=> msg[a] -> msg[b]
#=> msg[a] ~> noop[completed_Class[Main]]
#=> msg[b] ~> msg[c]
#=> msg[b] ~> noop[completed_Class[Main]]
#=> msg[c] -> msg[d]
#=> msg[c] ~> noop[completed_Class[Main]]
#=> msg[d] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> msg[a]
#=> noop[admissible_Class[Main]] ~> msg[b]
#=> noop[admissible_Class[Main]] ~> msg[c]
#=> noop[admissible_Class[Main]] ~> msg[d]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
