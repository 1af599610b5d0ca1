package zdb

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/zdb/store"
)

// report is the text of INFO and NSINFO: a line for each field.
type report []byte

func (r *report) title(name string)       { *r = fmt.Appendf(*r, "# %s\n", name) }
func (r *report) gap()                    { *r = append(*r, '\n') }
func (r *report) text(name, value string) { *r = fmt.Appendf(*r, "%s: %s\n", name, value) }
func (r *report) count(name string, n uint64) {
	*r = append(strconv.AppendUint(append(append(*r, name...), ": "...), n, 10), '\n')
}

func (r *report) yes(name string, is bool) {
	if is {
		r.text(name, "yes")
		return
	}
	r.text(name, "no")
}

// size is a number of bytes, and the same in MiB.
func (r *report) size(name string, n uint64) {
	r.count(name+"_bytes", n)
	*r = fmt.Appendf(*r, "%s_mb: %.2f\n", name, float64(n)/(1<<20))
}

// reports answers INFO and NSINFO.
type reports struct {
	cfg      Config
	instance uint32
	boot     time.Time
	now      func() time.Time
	count    *counters
	all      *namespaces
	guarded  func(ns *namespace) bool // reports whether SELECT asks for a password
}

// info is INFO. Clients know a 0-db by its server_name.
func (i *reports) info(c *session, _ [][]byte) {
	var r report
	r.title("server")
	r.text("server_name", "0-db (zdb)")
	r.text("server_revision", i.cfg.Version)
	r.text("engine_revision", i.cfg.Version)
	r.count("instance_id", uint64(i.instance))
	r.count("boot_time", uint64(i.boot.Unix()))
	r.count("uptime", uint64(i.now().Sub(i.boot)/time.Second))
	r.gap()
	r.title("clients")
	r.count("clients_lifetime", i.count.clients)
	r.gap()
	if i.cfg.Compat == CompatV2 {
		r.title("internals")
		r.count("sequential_key_size", uint64(i.all.layout.IDSize))
		r.count("data_version", 3)
		r.count("index_version", 4)
		r.gap()
	}
	r.title("stats")
	r.count("commands_executed", i.count.executed)
	r.count("commands_failed", i.count.unknown)
	r.count("commands_unauthorized", i.count.unauthorized)
	// All errors count as the data's. Bytes are those of 0-db's files.
	r.count("index_disk_read_failed", 0)
	r.count("index_disk_write_failed", 0)
	r.count("data_disk_read_failed", i.count.readErrors)
	r.count("data_disk_write_failed", i.count.writeErrors)
	r.size("index_disk_read", 0)
	r.size("index_disk_write", i.count.indexed)
	r.size("data_disk_read", i.count.read)
	r.size("data_disk_write", i.count.written)
	received, sent := c.conn.Traffic()
	r.size("network_rx", received)
	r.size("network_tx", sent)
	if c.conn.Admin { // over a socket that 0-db doesn't have
		r.limits()
	}
	c.bulk(r)
}

// limits is how often each limit has turned something away.
func (r *report) limits() {
	r.gap()
	r.title("limits")
	times := limit.Times()
	for _, name := range slices.Sorted(maps.Keys(times)) {
		r.count("limit_reached_"+name, times[name])
	}
}

// nsinfo is NSINFO. Paths and file numbers are those that 0-db would have.
func (i *reports) nsinfo(c *session, args [][]byte) {
	ns := named(c, i.all, args[1])
	if ns == nil {
		return
	}
	if !c.hears(ns) {
		c.fail(textNotFound)
		return
	}
	if ns.broken() {
		c.fail(textBroken)
		return
	}
	v2 := i.cfg.Compat == CompatV2
	st := ns.store.Stats()
	var r report
	r.title("namespace")
	r.text("name", ns.Name)
	r.count("entries", st.Entries)
	r.yes("public", !ns.Private)
	r.yes("worm", ns.Worm)
	if v2 {
		r.yes("locked", ns.locked)
	}
	r.yes("password", i.guarded(ns))
	r.size("data_size", st.DataBytes)
	r.count("data_limits_bytes", i.all.limit(ns))
	indexed := i.indexSize(ns, st.Entries, st.KeyBytes)
	r.count("index_size_bytes", indexed)
	r = fmt.Appendf(r, "index_size_kb: %.2f\n", float64(indexed)/1024)
	if v2 {
		r = fmt.Appendf(r, "next_internal_id: 0x%08x\n", bits.ReverseBytes64(st.Next))
	} else {
		r = fmt.Appendf(r, "next_internal_id: 0x%08x\n", bits.ReverseBytes32(uint32(st.Next)))
	}
	if ns.Mode == ModeUser {
		r.text("mode", "userkey")
	} else {
		r.text("mode", "sequential")
	}
	if v2 {
		r.faults(ns)
	}
	if limit := i.all.limit(ns); v2 && limit > 0 {
		r.count("space_available", limit-min(limit, st.DataBytes))
	}
	r.free("index", i.cfg.Index)
	r.free("data", i.cfg.Data)
	if v2 && c.admin {
		i.reportFiles(&r, ns, st)
	}
	if c.conn.Admin { // over a socket that 0-db doesn't have
		r.count("disk_size_bytes", st.Disk)
	}
	c.bulk(r)
}

// indexSize is the size of 0-db's index in memory.
func (i *reports) indexSize(ns *namespace, entries, keys uint64) uint64 {
	switch {
	case i.cfg.Compat == CompatV2:
		return entries*64 + keys
	case ns.Mode == ModeSequential:
		return 0
	}
	return entries*56 + keys
}

// free is the free space of a disk; nothing when that isn't known.
func (r *report) free(name, path string) {
	var st unix.Statfs_t
	if unix.Statfs(path, &st) == nil {
		r.size(name+"_disk_freespace", uint64(st.Bsize)*st.Bavail)
	}
}

// faults are a namespace's disk errors.
func (r *report) faults(ns *namespace) {
	for _, part := range []string{"index", "data"} {
		var errors, last, damaged uint64
		if part == "data" {
			errors, last, damaged = ns.errors.count, ns.errors.last, ns.store.Stats().Damaged
		}
		r.count("stats_"+part+"_io_errors", errors)
		r.count("stats_"+part+"_io_error_last", last)
		r.count("stats_"+part+"_faults", damaged)
	}
}

// reportFiles tells an admin of the files that 0-db would have.
func (i *reports) reportFiles(r *report, ns *namespace, st store.Stats) {
	data, index := i.cfg.Data+"/"+ns.Name, i.cfg.Index+"/"+ns.Name
	file := strconv.FormatUint(uint64(st.File), 10)
	r.text("data_path", data)
	r.text("data_active", data+"/d"+file)
	r.text("index_path", index)
	r.text("index_active", index+"/i"+file)
	r.count("data_current_id", uint64(st.File))
	r.count("data_current_offset", uint64(st.DataOffset))
}
