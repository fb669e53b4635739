node default { notify { 'default': } }
#=> msg[default] body=default priority=Notice
#=> msg[default] ~> noop[completed_Node[default]]
#=> noop[admissible_Class[Main]] ~> noop[admissible_Node[default]]
#=> noop[admissible_Node[default]] ~> msg[default]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> noop[completed_Node[default]] ~> noop[completed_Class[Main]]
