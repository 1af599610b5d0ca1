// Package project reads project files: YAML in which workloads have names and
// refer to each other by them.
//
// It knows the file's vocabulary and its rules, and turns a workload into the
// data of a reservation once it is told the IDs and given a sealer. Beside the
// project file it reads only the files named as secrets' sources. Every
// error says the line.
package project
