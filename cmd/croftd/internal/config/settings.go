package config

import (
	"slices"
	"time"

	"github.com/croft-edge/croft/pkg/dial"
)

// Kind is the format of a setting's value.
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

// Setting is one setting of an operator. Its name is the flag and the key in the file; the environment
// variable is derived from it.
type Setting struct {
	Name string
	Kind Kind
	// Default may refer to other settings in braces.
	Default string
	Help    string
	// Group is the heading of its documentation.
	Group string
	// Set parses text into c; its error says only which values are allowed.
	Set Setter
}

// Setter parses a setting's text into c. Its error says which values are allowed; Load adds the
// setting, the value and its source.
type Setter = func(c *Config, text string) error

// InGroup puts settings under a heading of the documentation.
func InGroup(group string, all []Setting) []Setting {
	for i := range all {
		all[i].Group = group
	}
	return all
}

// The headings of the node's own settings.
const (
	groupPlace     = "Where things are"
	groupExplorer  = "Explorer"
	groupBus       = "Bus"
	groupAdmission = "Admission"
	groupDoor      = "Users' way to the node"
	groupSeen      = "Logs, health, control"
	groupTime      = "Times"
)

// Settings is the table of all settings, in the order of the documentation: the node's own, with those
// of its modules among them.
func Settings(modules []Setting) []Setting {
	return slices.Concat(placeSettings(), busSettings(), modules, admissionSettings(), doorSettings(), seenSettings(), timeSettings())
}

func placeSettings() []Setting {
	return []Setting{
		{"state-dir", Text, "/var/lib/croft", "folder of data that must survive a reboot: the node's key, the store, the pool's loop file", groupPlace,
			SetPath(func(c *Config) *string { return &c.StateDir })},
		{"run-dir", Text, "/run/croft", "sockets and mount points", groupPlace,
			SetPath(func(c *Config) *string { return &c.RunDir })},
		{"explorer", Text, "", "the explorer's URL; without one the node keeps its workloads and gets no new ones", groupExplorer,
			httpURL(func(c *Config) *string { return &c.Explorer })},
		{"farm-id", Number, "0", "the farm that the node claims to belong to; 0 for none", groupExplorer,
			SetNumber(func(c *Config) *uint64 { return &c.FarmID })},
		{"trust-explorer-clock", Switch, "false", "trust the explorer's clock: data is removed by its word alone where NTP doesn't contradict it", groupExplorer,
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

func admissionSettings() []Setting {
	return []Setting{
		{"reserve-cpu", Number, "0", "cores that the node keeps for itself", groupAdmission,
			SetNumber(func(c *Config) *uint64 { return &c.Reserve.CPU })},
		{"cpu-overcommit", Number, "1", "vCPUs that may be reserved for each core; containers share busy cores in proportion to their reservations", groupAdmission,
			SetNumberIn(func(c *Config) *uint64 { return &c.Overcommit }, 1, 100)},
		{"reserve-memory", Size, "512MiB", "memory that the node keeps for itself", groupAdmission,
			SetSize(func(c *Config) *uint64 { return &c.Reserve.Memory })},
		{"reserve-disk", Size, "0", "disk of each type that the node keeps for itself", groupAdmission,
			SetSize(func(c *Config) *uint64 { return &c.Reserve.Disk })},
		{"allow-users", List, "", "IDs of the users that may reserve here; empty: everyone", groupAdmission,
			ids(func(c *Config) *[]string { return &c.AllowUsers })},
		{"debug-users", List, "", "IDs of the users that may reserve a stream of the node's log lines; empty: nobody", groupAdmission,
			ids(func(c *Config) *[]string { return &c.DebugUsers })},
		{"allow-private", List, "", "where tenants may go although it isn't public: CIDR, CIDR:port or host:port", groupAdmission,
			exceptions(func(c *Config) *[]dial.Exception { return &c.AllowPrivate })},
		{"max-duration", Duration, "8760h", "the furthest expiry that is accepted, counted from now, also for renewals", groupAdmission,
			SetDuration(func(c *Config) *time.Duration { return (&c.MaxDuration) })},
		{"max-records", Number, "50000", "reservations of all users that are remembered, ended ones until they may be forgotten; beyond it new ones are refused; 0: no limit", groupAdmission,
			SetNumber(func(c *Config) *uint64 { return &c.MaxRecords })},
		{"max-user-workloads", Number, "1000", "workloads that one user may have here at a time; 0: no limit", groupAdmission,
			SetNumber(func(c *Config) *uint64 { return &c.UserLimit.Workloads })},
		{"max-user-records", Number, "10000", "reservations of one user that are remembered, ended ones until their signed end; 0: no limit", groupAdmission,
			SetNumber(func(c *Config) *uint64 { return &c.UserLimit.Records })},
		{"max-user-cpu", Number, "0", "cores that one user may have here; 0: no limit", groupAdmission,
			SetNumber(func(c *Config) *uint64 { return &c.UserLimit.CPU })},
		{"max-user-memory", Size, "0", "memory that one user may have here; 0: no limit", groupAdmission,
			SetSize(func(c *Config) *uint64 { return &c.UserLimit.Memory })},
		{"max-user-ssd", Size, "0", "SSD that one user may have here; 0: no limit", groupAdmission,
			SetSize(func(c *Config) *uint64 { return &c.UserLimit.SSD })},
		{"max-user-hdd", Size, "0", "HDD that one user may have here; 0: no limit", groupAdmission,
			SetSize(func(c *Config) *uint64 { return &c.UserLimit.HDD })},
		{"accept-signature-v1", Switch, "false", "accept version 1 signatures, which cover neither dates nor deletion", groupAdmission,
			toggle(func(c *Config) *bool { return &c.AcceptSignatureV1 })},
		{"grace", Duration, "168h", "how long orphans (labelled, without a record) and evicted workloads are kept", groupAdmission,
			SetDuration(func(c *Config) *time.Duration { return (&c.Grace) })},
	}
}

func doorSettings() []Setting {
	return []Setting{
		{"door-listen", Text, ":9178", "where users read their containers' logs and run commands in them (HTTPS with the node's own key); port 0 takes a free one; none for nowhere, and no tunnel", groupDoor,
			listenAddress(func(c *Config) *string { return &c.DoorListen })},
		{"door-file", Text, "", "file that gets the address in use of door-listen", groupDoor,
			SetOptionalPath(func(c *Config) *string { return &c.DoorFile })},
		{"door-address", Text, "", "host:port at which users reach door-listen; empty: a public address of the machine, and a tunnel through the explorer too; none: the tunnel alone", groupDoor,
			hostPort(func(c *Config) *string { return &c.DoorAddress })},
	}
}

func seenSettings() []Setting {
	return []Setting{
		{"health-listen", Text, "127.0.0.1:9177", "where /healthz, /readyz and /metrics are served; port 0 takes a free one; none for nowhere", groupSeen,
			listenAddress(func(c *Config) *string { return &c.HealthListen })},
		{"health-file", Text, "", "file that gets the address in use of health-listen", groupSeen,
			SetOptionalPath(func(c *Config) *string { return &c.HealthFile })},
		{"state-socket", Text, "{run-dir}/state.sock", "socket of the node's state: croftd status, evict and store, and croft get; mode 0600", groupSeen,
			SetPath(func(c *Config) *string { return &c.StateSocket })},
		{"log-level", Text, "info", "trace, debug, info, warn or error", groupSeen,
			oneOf(func(c *Config) *string { return &c.LogLevel }, "trace", "debug", "info", "warn", "error")},
		{"log-format", Text, "json", "json, or text for people", groupSeen,
			oneOf(func(c *Config) *string { return &c.LogFormat }, "json", "text")},
	}
}

func timeSettings() []Setting {
	return []Setting{
		{"heartbeat", Duration, "1m", "interval of the node's sign of life to the explorer, give or take a fifth", groupTime,
			SetDuration(func(c *Config) *time.Duration { return (&c.Heartbeat) })},
		{"poll-wait", Duration, "30s", "how long the explorer may hold a poll open", groupTime,
			SetDuration(func(c *Config) *time.Duration { return (&c.PollWait) })},
		{"step-timeout", Duration, "2m", "how long one reservation may occupy the engine", groupTime,
			SetDuration(func(c *Config) *time.Duration { return (&c.StepTimeout) })},
		{"stop-timeout", Duration, "10s", "how long results are still sent when the node stops", groupTime,
			SetDuration(func(c *Config) *time.Duration { return (&c.StopTimeout) })},
	}
}
