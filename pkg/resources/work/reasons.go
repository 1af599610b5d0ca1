package work

// The reasons of events. Reasons says what each means.
const (
	ReasonPulling           = "Pulling"
	ReasonPulled            = "Pulled"
	ReasonCreated           = "Created"
	ReasonUpdated           = "Updated"
	ReasonReplaced          = "Replaced"
	ReasonSynced            = "Synced"
	ReasonRetrying          = "Retrying"
	ReasonFailed            = "Failed"
	ReasonErrResourceExists = "ErrResourceExists"
	ReasonDrifted           = "Drifted"
	ReasonRestored          = "Restored"
	ReasonInUse             = "InUse"
	ReasonHeld              = "Held"
	ReasonDeleted           = "Deleted"
	ReasonExpired           = "Expired"
	ReasonEvicted           = "Evicted"
	ReasonForgotten         = "Forgotten"
	ReasonOrphaned          = "Orphaned"
	ReasonOrphanRemoved     = "OrphanRemoved"
	ReasonHistoryLost       = "HistoryLost"
	ReasonLoadFailed        = "LoadFailed"
	ReasonConstraintUnmet   = "ConstraintUnmet"
	ReasonModuleEnded       = "ModuleEnded"
	ReasonMirrorBehind      = "MirrorBehind"
	ReasonMirrorSynced      = "MirrorSynced"
	ReasonSettingsChanged   = "SettingsChanged"
	ReasonSettingsRefused   = "SettingsRefused"
)

// Reason is a reason of events, with its meaning for people.
type Reason struct {
	Name string
	// Kind is Normal or Warning.
	Kind string
	// Operation is what kind of change it is about; empty for one of the node itself.
	Operation string
	Meaning   string
}

// Reasons is the table of all reasons.
func Reasons() []Reason {
	return []Reason{
		{ReasonPulling, Normal, Put, "the node fetches what the workload needs, such as its image"},
		{ReasonPulled, Normal, Put, "what the workload needs is fetched"},
		{ReasonCreated, Normal, Put, "the workload is on the node for the first time"},
		{ReasonUpdated, Normal, Put, "its user has renewed it"},
		{ReasonReplaced, Normal, Put, "a newer reservation of its name has taken its place"},
		{ReasonSynced, Normal, Put, "the explorer has its newest result"},
		{ReasonRetrying, Warning, Put, "an attempt has failed, and there will be another one"},
		{ReasonFailed, Warning, Put, "it has failed for good"},
		{ReasonErrResourceExists, Warning, Put, "something that isn't this workload's has its place on the node: that is left as it is"},
		{ReasonDrifted, Warning, Secondary, "what is on the node is gone, or isn't as it was made"},
		{ReasonRestored, Normal, Secondary, "what is on the node is as it was made again"},
		{ReasonInUse, Normal, Delete, "it leaves the node once those that use it have left"},
		{ReasonHeld, Normal, Delete, "it is stopped, and its data is kept for now"},
		{ReasonDeleted, Normal, Delete, "nothing of it is on the node: its user has deleted it, or it has given its place to a newer one (`Replaced`)"},
		{ReasonExpired, Normal, Delete, "its signed end has come, and nothing of it is on the node"},
		{ReasonEvicted, Normal, Delete, "the machine's owner has taken it off the node"},
		{ReasonForgotten, Normal, Purge, "the node has dropped its record, long after its end"},
		{ReasonOrphaned, Warning, Secondary, "something on the node has croft's label, and no record wants it: it is left alone until its grace period is over"},
		{ReasonOrphanRemoved, Warning, Purge, "an orphan's grace period is over, and it was removed"},
		{ReasonHistoryLost, Warning, "", "the history of before can't be used: its file was damaged and set aside, or can't be opened now; the message says why"},
		{ReasonLoadFailed, Warning, "", "a module can't be opened: it is opened again after growing pauses"},
		{ReasonConstraintUnmet, Warning, "", "a module isn't opened, because the machine lacks what it needs"},
		{ReasonModuleEnded, Warning, "", "a module has ended by itself: it is opened again"},
		{ReasonMirrorBehind, Warning, "", "a mirror of the store can't be written to and is tried again after growing pauses, or its list is more than ten minutes behind"},
		{ReasonMirrorSynced, Normal, "", "a mirror that was behind isn't any more; the message says how many files are left to copy"},
		{ReasonSettingsChanged, Normal, "", "a reload has changed settings"},
		{ReasonSettingsRefused, Warning, "", "a reload has found wrong settings: those before stay in force"},
	}
}

// ReasonOf finds a reason in the table.
func ReasonOf(name string) (Reason, bool) {
	for _, r := range Reasons() {
		if r.Name == name {
			return r, true
		}
	}
	return Reason{}, false
}
