
# Brings resources about, the second half of what runs inside Puppet.
module MgmtPuppet
  # Marks what is only there to be known.
  CONTEXT = 'mgmt_context'

  # The most files that are known not to be purged below one directory.
  MOST_SPARED = 100_000

  # Messages of these levels are told.
  WORRYING = %i[warning err alert emerg crit].freeze

  # One resource that is to be applied, and what has become of it.
  class Work
    attr_reader :item, :errors, :warnings
    attr_accessor :ral, :result

    def initialize(item)
      @item = item
      @errors = []
      @warnings = []
    end

    # What generates others is done alone, since what they become is not told apart.
    def alone?
      type = Puppet::Type.type(item['type'].to_s)
      return false unless type && MgmtPuppet.generates?(type)

      type.name != :file || (item['parameters'] || {}).key?('recurse')
    end

    def hear(message)
      (message.level == :warning ? warnings : errors) << MgmtPuppet.text(message.message)
    end

    def fail(why)
      errors << MgmtPuppet.text(why)
      self.result = { 'changed' => false, 'failed' => true, 'skipped' => false, 'would_change' => false, 'messages' => [], 'changes' => [] }
    end

    def answer
      (result || {}).merge('errors' => errors.uniq, 'warnings' => warnings.uniq)
    end
  end

  # Paths that nothing removes because nobody manages it, besides what Puppet itself knows to be managed: by where the links on their way lead, with the
  # directories above them, and with whatever begins like a path that ends in `*`. And files that another program is just writing.
  module Spared
    # Names of files that dpkg, Augeas and Ruby write before they rename them, and of Puppet's locks for those.
    TEMPORARY = /(?:\.dpkg-new|\.dpkg-tmp|\.augnew|\d{8}-\d+-[0-9a-z]+(?:\.lock)?)\z/.freeze

    MOUNT_TABLE = '/proc/self/mountinfo'

    # Seconds after which such a file was left behind.
    TEMPORARY_GRACE = 60

    class << self
      def clear
        @paths = Set.new
        @above = Set.new
        @trees = Set.new
        @beginnings = Hash.new { |all, directory| all[directory] = [] }
        @real = {}
        @mounts = nil
      end

      # With `tree`, so is all that is below it, and will be.
      def add(path, tree: false)
        place = real_place(path.delete_suffix('*'))
        path.end_with?('*') ? @beginnings[File.dirname(place)] << File.basename(place) : @paths << place
        @trees << place if tree
        [place, path].each do |at|
          at = File.dirname(at)
          at = File.dirname(at) while at != '/' && @above.add?(at)
        end
      end

      def include?(path)
        place = real_place(path)
        known?(place) || known?(path) || below_tree?(place) || leads_on?(path) || fresh_temporary?(path)
      rescue SystemCallError
        true
      end

      private

      def known?(place)
        name = File.basename(place)
        @paths.include?(place) || @above.include?(place) || (@beginnings.key?(File.dirname(place)) && @beginnings[File.dirname(place)].any? { |start| name.start_with?(start) })
      end

      def below_tree?(place)
        at = File.dirname(place)
        at = File.dirname(at) until at == '/' || @trees.include?(at)
        at != '/'
      end

      # A link may be the way to something.
      def leads_on?(path)
        File.symlink?(path) && File.exist?(path) && known?(location(File.realpath(path)))
      end

      def fresh_temporary?(path)
        return false unless File.basename(path).match?(TEMPORARY)

        found = File.lstat(path)
        (found.file? || path.end_with?('.lock')) && Time.now - found.mtime < TEMPORARY_GRACE
      rescue Errno::ENOENT
        true
      end

      # A path whose directory is called as it is without links and bind mounts.
      def real_place(path)
        location(without_links(path))
      end

      def without_links(path)
        parent = File.dirname(path)
        return path if parent == path

        @real[parent] ||= begin
          File.realpath(parent)
        rescue SystemCallError
          without_links(parent)
        end
        File.join(@real[parent], File.basename(path))
      end

      # The device and the path on it: the same for all bind mounts. Where nothing is mounted twice, the path itself.
      def location(real)
        point, device, root = mounts.find { |at, _, _| at == '/' || real == at || real.start_with?("#{at}/") }
        point ? File.join('/', device, root, real.delete_prefix(point)).chomp('/') : real
      end

      # What is mounted where, the longest mount points first; of several at one point, the last hides the others.
      def mounts
        @mounts ||= begin
          list = File.readlines(MOUNT_TABLE, encoding: 'UTF-8').map { |line| line.scrub.split(' ').values_at(4, 2, 3) }
          list = list.map { |fields| fields.map { |field| field.to_s.gsub(/\\(\d{3})/) { Regexp.last_match(1).to_i(8).chr } } }
          is_needed = list.map { |_, device, _| device }.uniq.length < list.length
          is_needed ? list.each_with_index.sort_by { |(at, _, _), number| [-at.length, -number] }.map(&:first) : []
        rescue SystemCallError
          []
        end
      end
    end
    clear

    # Stands before Puppet's list of what is below a directory.
    module Purge
      def recurse_local
        purge? ? super.reject { |_, child| Spared.include?(child[:path]) || old_content?(child[:path]) } : super
      end

      # Whether a file is what another one had in it before it was replaced.
      def old_content?(path)
        suffix = self[:backup].to_s
        suffix.start_with?('.') && path.end_with?(suffix) && File.exist?(path.delete_suffix(suffix))
      end
    end

    # Stands before Puppet's question whether a file is to go.
    module Tidy
      def tidy?(path)
        super && !Spared.include?(path)
      end
    end

    def self.use
      { file: Purge, tidy: Tidy }.each { |name, sparing| Puppet::Type.type(name).prepend(sparing) }
    end
  end

  # Puppet looks up how to quote a text anew for each value that it tells of, which takes longer than most of its work.
  module Quoting
    QUOTER = Puppet::Pops::Types::StringConverter.new

    def format_value_for_display(value)
      value.instance_of?(String) ? QUOTER.puppet_quote(value) : super
    end

    # Only if it makes no difference.
    def self.use
      samples = ['a', "it's", "\\ \n\u00e4 $x"]
      Puppet::Parameter.singleton_class.prepend(self) if samples.all? { |it| QUOTER.puppet_quote(it) == Puppet::Parameter.format_value_for_display(it) }
    rescue StandardError
      # This Puppet quotes in another way.
    end
  end

  module_function

  # Applies resources, each by itself but in one transaction, so that what a type gathers beforehand is gathered once. What
  # happens to one makes no difference to another.
  def apply(request)
    work = request['resources'].map { |item| Work.new(item) }
    at_work(work) do |environment|
      set(:noop, request['noop'] ? true : false)
      set(:skip_tags, CONTEXT)
      set(:tags, '')
      single, shared = work.partition(&:alone?)
      shared = transact(shared, request['context'], environment) until shared.empty?
      single.each { |one| transact([one], request['context'], environment) }
    end
    work.map(&:answer)
  ensure
    set(:noop, false)
    set(:skip_tags, '')
    NoStateFile.kept = false
  end

  # A setting forgets everything that was computed of others, so it is not set without need.
  def set(name, value)
    Puppet[name] = value unless Puppet[name] == value
  end

  # The environment stays the same until a type is missing: a module may have come.
  def at_work(work, &block)
    if @work_environment && !work.all? { |one| Puppet.override(@work_environment, 'for mgmt') { Puppet::Type.type(one.item['type'].to_s) } }
      @work_environment = nil
    end
    @work_environment ||= begin
      environment = some_environment
      { current_environment: environment, loaders: Puppet::Pops::Loaders.new(environment) }
    end
    environment = @work_environment[:current_environment]
    @sparing ||= Spared.use
    Puppet.override(@work_environment, 'for mgmt') do
      forget_host_state(environment)
      block.call(environment)
    end
  ensure
    Code.note(environment) if environment
  end

  # Begins a request as a new process of Puppet would: facts, those of modules among them, are looked up again, and default providers are
  # chosen again. A resource that was applied before may have changed both.
  def forget_host_state(environment)
    # Before Puppet 7 there is no runtime.
    facter = Puppet.respond_to?(:runtime) ? Puppet.runtime[:facter] : Facter
    # The first forgets values, the second where facts are looked for.
    facter.clear
    facter.reset
    search = Puppet::Node::Facts.indirection.request(:find, Puppet[:certname], nil, environment: environment)
    Puppet::Node::Facts::Facter.setup_external_search_paths(search)
    Puppet::Node::Facts::Facter.setup_search_paths(search)
    Puppet.initialize_facts if Puppet.respond_to?(:initialize_facts)
    Puppet::Type.eachtype { |type| type.defaultprovider = nil }
  end

  # One transaction. Gives those that have to be tried in another one.
  def transact(work, context, environment)
    catalogue = Puppet::Resource::Catalog.new(Puppet[:certname], environment)
    later = work.reject { |one| added?(catalogue, one, work.length) }
    present = work.select(&:ral)
    return later if present.empty?

    Spared.clear
    # What is below a path is spared from what they remove without being listed.
    is_listed = present.none? { |one| %i[file tidy].include?(one.ral.class.name) }
    (context || []).each { |item| add_context(catalogue, is_listed ? item : item.merge('listed' => false)) }
    NoStateFile.kept = present.any? { |one| one.ral[:schedule] || one.ral[:audit] }
    MESSAGES.clear
    begin
      run_transaction(catalogue, present)
    rescue SystemExit, StandardError, ScriptError
      raise if present.length == 1

      # Which of them it was is not known.
      present.each { |one| one.ral = nil }
      present.each { |one| transact([one], context, environment) }
    end
    later + present.reject(&:result).each { |one| one.ral = nil }
  rescue SystemExit, StandardError, ScriptError => error
    work.select(&:ral).each { |one| one.fail(error.message) }
    later || []
  end

  # Puts a resource into the catalogue. If another one there is the same, it has to wait for a transaction of its own.
  def added?(catalogue, one, count)
    resource = resource_of(one.item)
    resource.catalog = catalogue
    one.ral = resource.to_ral
    catalogue.add_resource(one.ral)
    true
  rescue SystemExit, StandardError, ScriptError => error
    waits = count > 1 && same_as_another?(error)
    catalogue.remove_resource(one.ral) if one.ral && catalogue.resource(one.ral.ref).equal?(one.ral)
    one.ral = nil
    one.fail(error.message) unless waits
    !waits
  end

  # Two of one title are one error, two titles for one thing another, which has no class of its own.
  def same_as_another?(error)
    error.is_a?(Puppet::Resource::Catalog::DuplicateResourceError) || error.message.start_with?('Cannot alias ')
  end

  def add_context(catalogue, item)
    if item['type'] == 'file'
      Spared.add(text((item['parameters'] || {})['path'] || item['title']).squeeze('/'), tree: item['tree'])
      # It stands for what begins like it.
      return if item['title'].to_s.end_with?('*')
    end
    resource = resource_of(item)
    return if catalogue.resource(resource.ref)

    resource.tag(CONTEXT) unless item['passive']
    resource.catalog = catalogue
    ral = known_ral(resource, item)
    begin
      catalogue.add_resource(ral)
    rescue Puppet::Error => error
      # It is known already, by another title.
      raise unless same_as_another?(error)

      catalogue.remove_resource(ral) if catalogue.resource(ral.ref).equal?(ral)
    end
    add_tree(catalogue, item['title']) if item['tree'] && item['listed'] != false
  end

  # What is only known need not be applied, and so not be right here: who it is, is enough then.
  def known_ral(resource, item)
    resource.to_ral
  rescue Puppet::Error, ArgumentError
    raise if item['passive']

    bare = Puppet::Resource.new(resource.type, resource.title)
    keys = resource.resource_type.key_attributes.reject { |name| resource[name].nil? }
    keys.each { |name| bare[name] = resource[name] }
    bare.tag(CONTEXT)
    bare.catalog = resource.catalog
    bare.to_ral
  end

  # What lies below a path that somebody else fills, as it is now.
  def add_tree(catalogue, directory)
    return unless File.directory?(directory) && !File.symlink?(directory)

    count = 0
    Find.find(directory) do |path|
      raise Puppet::Error, "there are more than #{MOST_SPARED} files below #{directory}" if (count += 1) > MOST_SPARED

      add_context(catalogue, { 'type' => 'file', 'title' => path }) unless path == directory
    end
  end

  def resource_of(item)
    type = item['type'].to_s
    raise Puppet::Error, "there is no type #{type}" unless Puppet::Type.type(type)

    resource = Puppet::Resource.new(type, item['title'].to_s)
    parameters = item['parameters'] || {}
    raise Puppet::Error, 'the parameters are not a map' unless parameters.is_a?(Hash)

    parameters.each do |name, value|
      resource[name.to_sym] = simple?(value) ? value : Puppet::Pops::Serialization::FromDataConverter.convert(value)
    end
    (item['sensitive'] || []).each { |name| resource.sensitive_parameters << name.to_sym }
    resource
  end

  # Whether rich data is nothing but itself.
  def simple?(value)
    case value
    when String, Integer, Float, true, false, nil then true
    when Array then value.all? { |one| simple?(one) }
    else false
    end
  end

  def run_transaction(catalogue, present)
    catalogue.host_config = true
    catalogue.finalize
    transaction = catalogue.apply(ignoreschedules: false)
    statuses = transaction.report.resource_statuses
    refreshed = present.select { |one| one.item['refresh'] && refresh(one, statuses[one.ral.ref]) }
    tell_apart(present, catalogue.resources.select { |resource| resource.tagged?(CONTEXT) }.to_set(&:path))
    everything = statuses.values.reject { |status| status.tags.include?(CONTEXT) } if present.length == 1
    present.each do |one|
      mine = everything || [statuses[one.ral.ref]].compact
      # It has only failed because another one has, which is none of its business.
      next if present.length > 1 && mine.any?(&:dependency_failed?)

      one.result = applied(one.ral.ref, mine, refreshed.include?(one))
    end
  end

  # Whether it was refreshed, or would be.
  def refresh(one, status)
    return false if status&.failed || !one.ral.respond_to?(:refresh)

    one.ral.refresh unless Puppet[:noop] || one.ral.noop?
    true
  rescue StandardError => error
    one.errors << text(error.message)
    status.failed = true if status
    false
  end

  # Gives each message to the resource that it is about, and to all if it is about none. What is only known is none of their business.
  def tell_apart(present, known)
    paths = present.to_h { |one| [one.ral.path, one] }
    MESSAGES.list.each do |message|
      source = message.source.to_s
      places = [source, source.rpartition('/').first]
      next if !WORRYING.include?(message.level) || places.any? { |place| known.include?(place) }

      one = places.filter_map { |place| paths[place] }.first
      (one ? [one] : present).each { |listener| listener.hear(message) }
    end
  end

  # What became of one resource and of those that it generated.
  def applied(own, mine, refreshed)
    events = mine.flat_map(&:events)
    {
      'changed' => mine.any?(&:changed) || refreshed,
      'failed' => mine.any? { |status| status.failed || status.failed_to_restart },
      'skipped' => mine.any?(&:skipped),
      'would_change' => events.any? { |event| event.status == 'noop' },
      'messages' => events.reject { |event| event.message.nil? }.map { |event| event.redacted ? "#{event.property} changed" : text(event.message) },
      'changes' => mine.flat_map { |status| status.events.filter_map { |event| change(own, status, event) } }
    }
  end

  # What is other than before, or would be.
  def change(own, status, event)
    return unless %w[success noop].include?(event.status)

    shown = ->(value) { event.redacted || value.nil? || value == :absent ? nil : text(value.is_a?(Array) ? value.join(', ') : value) }
    { 'resource' => status.resource, 'generated' => status.resource != own, 'property' => event.property&.to_s, 'before' => shown.call(event.previous_value), 'after' => shown.call(event.desired_value),
      'redacted' => event.redacted ? true : false }
  end
end
