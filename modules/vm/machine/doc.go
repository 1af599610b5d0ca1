// Package machine is the record of one virtual machine: its specification, the process that
// runs it, and the phase that it is in. Transitions are pure; Folder keeps the record and the
// other files of a VM below the run folder.
//
//	         Begin                Began
//	Waiting ───────► Starting ───────────► Running
//	   ▲  ▲              │                    │
//	   │  └── Failed ────┘                    │
//	   └───────────── Exited ─────────────────┘        every phase ── Stop ──► Stopping
package machine
