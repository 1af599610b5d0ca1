package config

import (
	"net/netip"

	"github.com/croft-edge/croft/pkg/dial"
)

// Kind is the form of a setting's value.
type Kind string

// The kinds of value.
const (
	Text     Kind = "text"
	Switch   Kind = "true or false"
	Number   Kind = "whole number"
	Size     Kind = "size (such as 4GiB)"
	Duration Kind = "duration (such as 30s)"
	List     Kind = "list, separated by commas"
)

// Setting is one thing that an operator may set. Its name is the flag and the
// key in the file; the environment variable follows from it.
type Setting struct {
	Name string
	Kind Kind
	// Default may name other settings in braces.
	Default string
	Help    string
	// Group is the heading under which it is documented.
	Group string
	// set parses text into c; its error says only what is allowed.
	set func(c *Config, text string) error
}

// The headings of the settings.
const (
	groupPlace     = "Where things are"
	groupExplorer  = "Explorer"
	groupBus       = "Bus"
	groupStorage   = "Storage"
	groupNetwork   = "Networks"
	groupContainer = "Containers"
	groupZDB       = "zdb"
	groupAdmission = "Who may have what"
	groupDoor      = "Users' way to the node"
	groupSeen      = "Logs, health, control"
	groupTime      = "Times"
)

// Settings is the table of all settings, in the order in which they are documented.
func Settings() []Setting {
	var all []Setting
	for _, part := range [][]Setting{
		placeSettings(), busSettings(), storageSettings(), networkSettings(), containerSettings(), imageSettings(), zdbSettings(), admissionSettings(), doorSettings(), seenSettings(), timeSettings(),
	} {
		all = append(all, part...)
	}
	return all
}

func placeSettings() []Setting {
	return []Setting{
		{"state-dir", Text, "/var/lib/croft", "what must survive a reboot: the node's key, the store, the pool's loop file", groupPlace,
			path(func(c *Config) *string { return &c.StateDir })},
		{"run-dir", Text, "/run/croft", "sockets and mount points", groupPlace,
			path(func(c *Config) *string { return &c.RunDir })},
		{"explorer", Text, "", "the explorer's URL; without one the node keeps what it has and gets nothing new", groupExplorer,
			httpURL(func(c *Config) *string { return &c.Explorer })},
		{"farm-id", Number, "0", "the farm that the node says it belongs to; 0 for none", groupExplorer,
			number(func(c *Config) *uint64 { return &c.FarmID })},
		{"trust-explorer-clock", Switch, "false", "take the explorer for a clock that is right: data is removed by its word alone where NTP doesn't say otherwise", groupExplorer,
			toggle(func(c *Config) *bool { return &c.TrustExplorerClock })},
	}
}

func busSettings() []Setting {
	return []Setting{
		{"bus", Text, "", "redis server of a node whose modules are processes of their own; empty: the whole node is one process", groupBus,
			busURL(func(c *Config) *string { return &c.Bus })},
		{"bus-listen", Text, "unix://{run-dir}/bus.sock", "where the one process serves its bus to others; none for nowhere", groupBus,
			busListen(func(c *Config) *string { return &c.BusListen })},
	}
}

func storageSettings() []Setting {
	return []Setting{
		{"pool-size", Size, "20GiB", "size of the pool on a loop file in state-dir; used when no disks are named", groupStorage,
			size(func(c *Config) *uint64 { return &c.PoolSize })},
		{"pool-type", Text, "SSD", "what the pool on a loop file is offered as: SSD or HDD", groupStorage,
			deviceType(func(c *Config) *deviceName { return (*deviceName)(&c.PoolType) })},
		{"disk", List, "", "whole disks to make pools of, such as SSD:/dev/nvme0n1; without a type it is what the kernel says", groupStorage,
			disks(func(c *Config) *[]Disk { return &c.Disks })},
		{"wipe-disk", List, "", "disks of the list that may be overwritten though something is on them", groupStorage,
			paths(func(c *Config) *[]string { return &c.WipeDisks })},
	}
}

func networkSettings() []Setting {
	return []Setting{
		{"network-uplinks", Text, "169.254.64.0/18", "IPv4 range between the node and its users' networks, two addresses a network; nothing else may use it", groupNetwork,
			prefix(func(c *Config) *netip.Prefix { return &c.NetworkUplinks }, isIPv4)},
		{"public-ip6-range", Text, "", "IPv6 range, routed to this node, that containers with public_ip6 get addresses of; empty: none can be had", groupNetwork,
			prefix(func(c *Config) *netip.Prefix { return &c.PublicIP6Range }, isIPv6)},
		{"dns-servers", List, "", "DNS servers that answer users' networks, as address or address:port; empty: those of /etc/resolv.conf", groupNetwork,
			addresses(func(c *Config) *[]netip.AddrPort { return &c.DNSServers })},
	}
}

func admissionSettings() []Setting {
	return []Setting{
		{"reserve-cpu", Number, "0", "cores that the node keeps for itself", groupAdmission,
			number(func(c *Config) *uint64 { return &c.Reserve.CPU })},
		{"cpu-overcommit", Number, "1", "how often each core is promised: containers that want more than there is share it by what they reserved", groupAdmission,
			numberOf(func(c *Config) *uint64 { return &c.Overcommit }, 1, 100)},
		{"reserve-memory", Size, "512MiB", "memory that the node keeps for itself", groupAdmission,
			size(func(c *Config) *uint64 { return &c.Reserve.Memory })},
		{"reserve-disk", Size, "0", "disk of each type that the node keeps for itself", groupAdmission,
			size(func(c *Config) *uint64 { return &c.Reserve.Disk })},
		{"allow-users", List, "", "IDs of the users that may reserve here; empty: everyone", groupAdmission,
			ids(func(c *Config) *[]string { return &c.AllowUsers })},
		{"debug-users", List, "", "IDs of the users that may reserve a stream of the node's log lines; empty: nobody", groupAdmission,
			ids(func(c *Config) *[]string { return &c.DebugUsers })},
		{"allow-private", List, "", "where tenants may go although it isn't public: CIDR, CIDR:port or host:port", groupAdmission,
			exceptions(func(c *Config) *[]dial.Exception { return &c.AllowPrivate })},
		{"max-duration", Duration, "8760h", "the furthest expiry that is accepted, counted from now, also for renewals", groupAdmission,
			duration(func(c *Config) *durationValue { return (*durationValue)(&c.MaxDuration) })},
		{"max-records", Number, "50000", "reservations of all users that are remembered, ended ones until they may be forgotten; beyond it new ones are refused; 0: no limit", groupAdmission,
			number(func(c *Config) *uint64 { return &c.MaxRecords })},
		{"max-user-workloads", Number, "1000", "workloads that one user may have here at a time; 0: no limit", groupAdmission,
			number(func(c *Config) *uint64 { return &c.UserLimit.Workloads })},
		{"max-user-records", Number, "10000", "reservations of one user that are remembered, ended ones until their signed end; 0: no limit", groupAdmission,
			number(func(c *Config) *uint64 { return &c.UserLimit.Records })},
		{"max-user-cpu", Number, "0", "cores that one user may have here; 0: no limit", groupAdmission,
			number(func(c *Config) *uint64 { return &c.UserLimit.CPU })},
		{"max-user-memory", Size, "0", "memory that one user may have here; 0: no limit", groupAdmission,
			size(func(c *Config) *uint64 { return &c.UserLimit.Memory })},
		{"max-user-ssd", Size, "0", "SSD that one user may have here; 0: no limit", groupAdmission,
			size(func(c *Config) *uint64 { return &c.UserLimit.SSD })},
		{"max-user-hdd", Size, "0", "HDD that one user may have here; 0: no limit", groupAdmission,
			size(func(c *Config) *uint64 { return &c.UserLimit.HDD })},
		{"accept-signature-v1", Switch, "false", "accept version 1 signatures, which cover neither dates nor deletion", groupAdmission,
			toggle(func(c *Config) *bool { return &c.AcceptSignatureV1 })},
		{"grace", Duration, "168h", "how long what has a label but no record, and what was evicted, is kept", groupAdmission,
			duration(func(c *Config) *durationValue { return (*durationValue)(&c.Grace) })},
	}
}

func doorSettings() []Setting {
	return []Setting{
		{"door-listen", Text, ":9178", "where users read their containers' logs and run commands in them (HTTPS with the node's own key); port 0 takes a free one; none for nowhere, and no tunnel", groupDoor,
			listenAddress(func(c *Config) *string { return &c.DoorListen })},
		{"door-file", Text, "", "file that gets the address in use of door-listen", groupDoor,
			optionalPath(func(c *Config) *string { return &c.DoorFile })},
		{"door-address", Text, "", "host:port at which users reach door-listen; empty: a public address of the machine, and a tunnel through the explorer too; none: the tunnel alone", groupDoor,
			hostPort(func(c *Config) *string { return &c.DoorAddress })},
	}
}

func seenSettings() []Setting {
	return []Setting{
		{"health-listen", Text, "127.0.0.1:9177", "where /healthz, /readyz and /metrics are served; port 0 takes a free one; none for nowhere", groupSeen,
			listenAddress(func(c *Config) *string { return &c.HealthListen })},
		{"health-file", Text, "", "file that gets the address in use of health-listen", groupSeen,
			optionalPath(func(c *Config) *string { return &c.HealthFile })},
		{"control-socket", Text, "{run-dir}/control.sock", "socket of croftd status, evict and store; mode 0600", groupSeen,
			path(func(c *Config) *string { return &c.ControlSocket })},
		{"log-level", Text, "info", "trace, debug, info, warn or error", groupSeen,
			oneOf(func(c *Config) *string { return &c.LogLevel }, "trace", "debug", "info", "warn", "error")},
		{"log-format", Text, "json", "json, or text for people", groupSeen,
			oneOf(func(c *Config) *string { return &c.LogFormat }, "json", "text")},
	}
}

func timeSettings() []Setting {
	return []Setting{
		{"heartbeat", Duration, "1m", "how often the node tells the explorer that it is there, give or take a fifth", groupTime,
			duration(func(c *Config) *durationValue { return (*durationValue)(&c.Heartbeat) })},
		{"poll-wait", Duration, "30s", "how long the explorer may hold a poll open", groupTime,
			duration(func(c *Config) *durationValue { return (*durationValue)(&c.PollWait) })},
		{"step-timeout", Duration, "2m", "how long one reservation may occupy the engine", groupTime,
			duration(func(c *Config) *durationValue { return (*durationValue)(&c.StepTimeout) })},
		{"stop-timeout", Duration, "10s", "how long results are still sent when the node stops", groupTime,
			duration(func(c *Config) *durationValue { return (*durationValue)(&c.StopTimeout) })},
	}
}
