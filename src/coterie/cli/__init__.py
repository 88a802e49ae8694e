"""The command line. Modules load only when their command runs, so that help is quick."""
