// Package tasks reads and ends users' containers in containerd: the containers with croft's labels,
// whose they are, and the task of each: its processes, with their state, use and exit.
//
// It owns nothing. Containers are made by the container module, tasks by package launch.
package tasks
