"""Problems as models of CP-SAT and HiGHS, and the solvers that ask these engines."""
