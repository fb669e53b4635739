cron { 'backup': command => '/bin/backup', user => 'root', minute => '*/5', hour => [1, 13], weekday => ['mon', 'Friday'] }
cron { 'weekly': command => 'x', special => 'weekly', environment => ['PATH=/bin', 'MAILTO=me'] }
cron { 'old': ensure => absent }
#=> crontab[backup] state=exists user=root command=/bin/backup minute=*/5 hour=1,13 weekday=1,5 mark=Puppet Name
#=> crontab[weekly] state=exists user=root command=x special=weekly environment=["PATH=/bin", "MAILTO=me"] mark=Puppet Name
#=> crontab[old] state=absent user=root mark=Puppet Name
#=> crontab[backup] ~> noop[completed_Class[Main]]
#=> crontab[old] ~> noop[completed_Class[Main]]
#=> crontab[weekly] ~> noop[completed_Class[Main]]
#=> noop[admissible_Class[Main]] ~> crontab[backup]
#=> noop[admissible_Class[Main]] ~> crontab[old]
#=> noop[admissible_Class[Main]] ~> crontab[weekly]
#=> noop[admissible_Stage[main]] ~> noop[admissible_Class[Main]]
#=> noop[completed_Class[Main]] ~> noop[completed_Stage[main]]
