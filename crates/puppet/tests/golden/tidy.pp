tidy { '/nowhere/tmp': age => '1w', recurse => 2, matches => ['*.tmp', 'core.*'], rmdirs => true, type => mtime }
tidy { '/nowhere/big': size => '10m', recurse => true }
#=> tidy[/nowhere/tmp] path=/nowhere/tmp age=604800 by=mtime matches=["*.tmp", "core.*"] recurse=true depth=2 rmdirs=true meta:poll=1800
#=> tidy[/nowhere/big] path=/nowhere/big size=10485760 recurse=true meta:poll=1800
#=> noop[admissible_Class[Main]] ~> tidy[/nowhere/big]
#=> noop[admissible_Class[Main]] ~> tidy[/nowhere/tmp]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
#=> tidy[/nowhere/big] ~> noop[completed_Class[Main]]
#=> tidy[/nowhere/tmp] ~> noop[completed_Class[Main]]
