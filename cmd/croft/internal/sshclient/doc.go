// Package sshclient runs the system's ssh program on one machine whose host keys are known beforehand, and reads such
// keys from the lines of the machine's console. It owns the temporary known_hosts file of a run. It is the user's own
// ssh: agents, hardware keys and the jump hosts of ~/.ssh/config keep working, and nothing of them passes through croft.
package sshclient
