@notify { 'never': }
notify { 'always': }
#=> msg[always] body=always priority=Notice
#=> msg[always] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> msg[always]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
