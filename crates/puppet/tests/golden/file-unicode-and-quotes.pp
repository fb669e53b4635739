file { "/nowhere/it's \u00e9 \"x\"": content => "\u00fcber $ % '" }
notify { "[brackets] -> arrows": }
#=> file[/nowhere/it's é "x"] path=/nowhere/it's é "x" state=exists content=über $ % ' instead=true
#=> msg[[brackets] -> arrows] body=[brackets] -> arrows priority=Notice
#=> file[/nowhere/it's é "x"] ~> noop[completed_Class[Main]]
#=> msg[[brackets] -> arrows] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> file[/nowhere/it's é "x"]
#=> noop[admissible_Class[Main]] ~> msg[[brackets] -> arrows]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
